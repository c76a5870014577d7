import {
  deposit,
  solanaPayer
} from "./shared-B7JZTV5T.js";
import "./shared-DIZPJKEV.js";
import "./shared-EJZXPSA6.js";
export {
  deposit,
  solanaPayer
};
