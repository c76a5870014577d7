// Where the words are that a constructor writes into the deployed code.
'use strict';

// The compiler tells immutables by their node in the syntax tree, whose numbers change with every source that is added.
const namesOf = (sources) => {
  const names = {};
  const visit = (node) => {
    if (node === null || typeof node !== 'object') return;
    if (node.nodeType === 'VariableDeclaration' && node.mutability === 'immutable') names[node.id] = node.name;
    for (const inner of Object.values(node)) visit(inner);
  };
  for (const { ast } of Object.values(sources)) visit(ast);
  return names;
};

// By the name of each immutable, the first byte of each of its 32-byte words.
exports.immutablesOf = (sources, references = {}) => {
  const names = namesOf(sources);
  const named = Object.entries(references).map(([id, places]) => {
    if (!names[id] || places.some((place) => place.length !== 32)) throw new Error(`immutable ${id} has no name or size`);
    return [names[id], places.map((place) => place.start).sort((a, b) => a - b)];
  });
  if (new Set(named.map(([name]) => name)).size !== named.length) throw new Error('two immutables have one name');
  return Object.fromEntries(named.sort(([a], [b]) => (a < b ? -1 : 1)));
};
