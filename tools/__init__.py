"""What developers run now and then: it changes nothing, and judges the tests."""
