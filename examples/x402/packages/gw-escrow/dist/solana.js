import {
  deposit,
  solanaPayer
} from "./shared-CRTS6FQX.js";
import "./shared-UDSO6T45.js";
import "./shared-EJZXPSA6.js";
export {
  deposit,
  solanaPayer
};
