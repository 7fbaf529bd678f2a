/** Sentences of lib/base/config: what is wrong with a configuration file, a variable or the data directory. */
export const configSays = {
  keyTwice: (key: string, line: number): string => `the key "${key}" comes twice in one object, in line ${line}`,
  // What a key must be; used after the key's name.
  mustBeText: ' must be a string',
  mustBeQuoted: ' must be a string: write it in quotes',
  mustBeTextMap: ' must be an object of strings',
  mustBeSwitch: ' must be true or false',
  addressExpected: ' is not valid: expected an address like',
  noVariableName: ' is not a valid variable name',
  projectIdMissing: 'svc.config.json: projectId is missing. Run "svc list" to find the id',
  tokenInConfig: 'the file is shared and must not contain a deploy token',
  unknownKey: (key: string): string => `unknown key "${key}"`,
  didYouMean: (key: string): string => `. Did you mean "${key}"?`,

  // What base/fields.ts says about a key.
  isEmpty: ' is empty',
  textExpected: ': expected a string',
  listExpected: ': expected a list',
  objectExpected: ': expected an object',
  switchExpected: ': expected true or false',

  // Broken JSON.
  unreadable: (file: string): string => `${file}": `,
  halfCharacter: (written: string, line: number): string =>
    `line ${line} contains half of a surrogate pair (${written})`,
  notJson: (line: number, column: number, found: string): string =>
    `unexpected ${found} in line ${line}, column ${column}`,
  endOfFile: 'end of file',
  notAnObject: 'not a JSON object',
  tooLong: (characters: number): string => `longer than ${characters} characters`,

  // The data directory.
  isFile: /"[^"]*file" is a file\. Choose another with SVC_HOME/,
  pathIsFile: /"[^"]*file" is a file/,
  mayNotWrite: /: permission denied\. Run svc as/,
  mayNotCreate: /: permission denied\. Choose another/,
  ownedByRoot: /: permission denied: it belongs to the user 0, this is \d+\./,
  noSpace: (directory: string): string => `"${directory}": no space left on device.`,
  runsAsRoot: /runs as root, but .* belongs to the user 65534\. Run svc as that user/,
  onNetwork: (directory: string, fileSystem: string): string =>
    `"${directory}": it is on a network file system (${fileSystem}), `,
  networkCure: '. Choose a directory on a local disk with SVC_HOME, or set SVC_NETWORK_HOME=1',
  untrusted: /^The data directory ".*" cannot be trusted: .*, or choose another with SVC_HOME$/,
  othersMayWrite: (path: string, mode: string): RegExp =>
    new RegExp(`other users may write to "${path}" \\(mode ${mode}\\)`),
  belongsTo: (file: string, uid: number): RegExp => new RegExp(`${file}" belongs to the user ${uid}\\. `),
  unsafeDotenv: /^Cannot use ".*\.env\.local": .*\. Run "ch(mod|own) .*", or remove svc's keys from it$/,

  // Which configuration applies.
  initWritesOne: 'Run "svc init" to create one',
  noFileForEnvironment: (file: string, present: string): RegExp => new RegExp(`Cannot find ${file} in .*: ${present}$`),
  environmentNeeded: (...names: string[]): string =>
    `Several environments exist: ${names.join(', ')}. Choose one with --env`,
  switchCannotBe: (name: string, value: string): string =>
    `${name} cannot be "${value}": it must be true, false, 1 or 0`,

  // SVC_PUBLIC_URL.
  publicUrl: (shown: string): string => `SVC_PUBLIC_URL "${shown}" is not valid: `,
  publicUrlForm: 'use an address like "https://deploy.example.org"',
  publicUrlPassword: 'it must not contain a user name or password',
  publicUrlQuery: 'it must not contain "?" or "#"',
  publicUrlNoBase: 'it must have no path, because the server has no --base',
  publicUrlBase: (base: string): string => `its path must be that of --base, "${base}"`,

  // Tokens and their origins.
  notSentTo: (url: string): string => `was not sent to ${url}: `,
  belongsToOrigin: (origin: string): string => `belongs to ${origin}`
}
