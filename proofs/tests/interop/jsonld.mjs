// Canonicalizes documents with npm `jsonld` and signs them (eddsa-rdfc-2022) with Node's own Ed25519.
//
// In: JSON lines on standard input, each a document; the environment names the folder of the contexts and the key.
// Out: JSON lines, each {"hash": SHA-256 of the N-Quads in hex, "proof": …}, or {"error": …}.
import {createHash, createPrivateKey, sign} from 'node:crypto';
import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {createInterface} from 'node:readline';

const jsonld = createRequire(process.env.JSONLD_MODULES + '/')('jsonld');
const contexts = JSON.parse(readFileSync(process.env.CONTEXTS, 'utf8'));
const documentLoader = async url => {
  if(!(url in contexts)) {
    throw new Error(`context ${url} is not there`);
  }
  return {contextUrl: null, documentUrl: url, document: contexts[url]};
};
const options = {algorithm: 'RDFC-1.0', documentLoader, safe: true, base: null};
const sha256 = data => createHash('sha256').update(data).digest();

const seed = Buffer.from(process.env.SEED, 'hex');
const pkcs8 = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed]);
const key = createPrivateKey({key: pkcs8, format: 'der', type: 'pkcs8'});

function base58(bytes) {
  const alphabet = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
  let number = BigInt('0x' + bytes.toString('hex'));
  let text = '';
  while(number > 0n) {
    text = alphabet[Number(number % 58n)] + text;
    number /= 58n;
  }
  for(const byte of bytes) {
    if(byte !== 0) {
      break;
    }
    text = '1' + text;
  }
  return text;
}

for await (const line of createInterface({input: process.stdin})) {
  let answer;
  try {
    const document = JSON.parse(line);
    const hash = sha256(await jsonld.canonize(document, options));
    const proof = {
      type: 'DataIntegrityProof',
      cryptosuite: 'eddsa-rdfc-2022',
      created: '2027-01-01T12:00:00Z',
      verificationMethod: process.env.METHOD,
      proofPurpose: 'assertionMethod',
    };
    const config = await jsonld.canonize({'@context': document['@context'], ...proof}, options);
    const signature = sign(null, Buffer.concat([sha256(config), hash]), key);
    answer = {hash: hash.toString('hex'), proof: {...proof, proofValue: 'z' + base58(signature)}};
  } catch(error) {
    answer = {error: error.message};
  }
  process.stdout.write(JSON.stringify(answer) + '\n');
}
