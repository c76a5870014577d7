// The operators' console: everything in it is made here, of what the API says.

import './console.css';

import { render } from 'preact';

import { App } from './views/app.js';

const main = document.getElementById('main');
if (main) {
  main.replaceChildren();
  render(<App />, main);
}
