// Runs before the page is drawn, so that a remembered theme never flashes in after the other one.
(() => {
  try {
    const theme = localStorage.getItem("segmax-theme");
    if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage may be forbidden; the system's theme will do.
  }
})();
