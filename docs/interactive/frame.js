// Makes the frame of the tile-loop page as high as the page in it, which tells its height by a message: a file that is opened
// from the disk may not look into another one.
window.addEventListener("message", ({ data, source }) => {
  const frame = document.querySelector("iframe.tile-loop");
  if (data?.tiledmm === "height" && source === frame?.contentWindow) frame.style.height = `${data.height}px`;
});
document.querySelector("iframe.tile-loop")?.contentWindow.postMessage({ tiledmm: "ask" }, "*");
