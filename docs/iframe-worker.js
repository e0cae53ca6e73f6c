// Search in pages that are opened from disk, where browsers refuse workers: the theme's worker runs in a hidden frame.
// Nothing else of a worker is needed: messages both ways, and importScripts.
"use strict";
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.ready = new Promise((resolve) => {
        const frame = document.createElement("iframe");
        frame.hidden = true;
        document.body.append(frame);
        const scope = frame.contentWindow;
        const run = (source) => new Promise((loaded, failed) => {
          const script = scope.document.createElement("script");
          script.onload = loaded;
          script.onerror = () => failed(new Error(`${source} cannot be loaded`));
          script.src = source;
          scope.document.head.append(script);
        });
        scope.importScripts = async (...sources) => {
          for (const source of sources) await run(source);
        };
        scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
        resolve(run(url).then(() => scope));
      });
    }
    postMessage(data) {
      this.ready.then((scope) => scope.dispatchEvent(new scope.MessageEvent("message", { data })));
    }
    terminate() {}
  };
}
