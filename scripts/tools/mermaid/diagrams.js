// Draws the fenced code blocks of language `mermaid`, in the colours of the book's theme.
const diagrams = document.querySelectorAll("code.language-mermaid");
for (const code of diagrams) {
  const drawn = document.createElement("pre");
  drawn.className = "mermaid";
  drawn.textContent = code.textContent;
  code.parentElement.replaceWith(drawn);
}
const dark = ["ayu", "coal", "navy"].some((theme) => document.documentElement.classList.contains(theme));
if (diagrams.length > 0) {
  mermaid.initialize({ startOnLoad: false, theme: dark ? "dark" : "default" });
  mermaid.run();
}
