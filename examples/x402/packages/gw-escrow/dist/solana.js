import {
  deposit,
  solanaPayer
} from "./shared-QQ5ID3YB.js";
import "./shared-QW7TA72N.js";
import "./shared-EJZXPSA6.js";
export {
  deposit,
  solanaPayer
};
