import { unprintableIn } from '../base/text.js'
import type { AccessRole } from '../model/access.js'
import { maxMessageLength } from '../model/deployment.js'
import { option, toggle, usage } from './command.js'
import { durationOf } from './terminal/words.js'

/** The default name of the file of a server. */
export const serverFileName = 'svc.server.json'

/** Options that several commands share. */
export const sharedOptions = {
  server: option('url', 'address of the server; may include a path'),
  adminToken: option('token', 'the admin token or a named one; "-" reads it from standard input'),
  token: option('token', 'a token of the server or the deploy token; "-" reads it from standard input'),
  project: option('project', 'id or name of the project, whose stored deploy token is used', { complete: 'projects' }),
  env: option('name', 'environment: read svc.config.<name>.json; "default" means svc.config.json', {
    alias: 'e',
    complete: 'environments'
  }),
  message: option('text', 'message for this deployment, one line', { alias: 'm' }),
  json: toggle('print the result as JSON'),
  yes: toggle('do not ask for confirmation', { alias: 'y' })
} as const

/** Options of the commands that manage the server. */
export const adminOptions = {
  env: sharedOptions.env,
  server: sharedOptions.server,
  token: sharedOptions.adminToken
} as const

/** Options of the commands that the deploy token of a project permits, too. */
export const serverOptions = {
  env: sharedOptions.env,
  server: sharedOptions.server,
  token: sharedOptions.token
} as const

/** Options of the commands for one deployment or rollout, with the stored deploy token of its project. */
export const deploymentOptions = {
  env: sharedOptions.env,
  server: sharedOptions.server,
  project: sharedOptions.project,
  token: sharedOptions.token
} as const

/** The operand that names a project by its id or its name. */
export const projectOperand = {
  complete: 'projects',
  help: 'id or name of the project; default: the one in svc.config.json'
} as const

export const deploymentOperand = {
  required: true,
  complete: 'deployments',
  help: 'id of the deployment; "svc status" shows it'
} as const

/** The operand that names a deployment which waits. */
export const waitingOperand = {
  complete: 'deployments',
  help: 'id of the deployment; default: the one of the project that waits'
} as const

/** Option `--json` of the commands that print a project. */
export const projectJson = toggle('print the project as JSON, with its deploy token masked')

/** Refuses a --message that the server would refuse. Commands call it before they pack anything. */
export function checkMessage(message = ''): void {
  if (message.length > maxMessageLength)
    throw usage('--message', `--message is too long: at most ${maxMessageLength} characters`)
  const found = unprintableIn(message)
  if (found !== null) throw usage('--message', `--message must be one line of visible characters: it contains ${found}`)
}

/** Returns the milliseconds of an option with a duration. Refuses any other text with the kind `usage`. */
export function durationOption(flag: string, text: string): number {
  const ms = durationOf(text)
  if (ms === null) throw usage(flag, `${flag} cannot be "${text}": use a duration such as 90s, 10m, 2h or 1d`)
  return ms
}

/**
 * Parses an option with a time to milliseconds since the epoch. Accepts a duration before now (`90s`, `10m`, `2h`, `1d`,
 * `1w`), a time of today (`12:04`), and a date with or without time and zone. The default zone is that of this machine.
 * Refuses anything else with the kind `usage`.
 */
export function timeOption(flag: string, text: string, nowMs: number): number {
  const ago = durationOf(text)
  if (ago !== null) return nowMs - ago
  const ms = parseTime(text, nowMs)
  if (!Number.isNaN(ms)) return ms
  throw usage(
    flag,
    `${flag} cannot be "${text}": use a duration like 10m or 2h, or a time like 12:04 or 2026-11-21T12:04`
  )
}

function parseTime(text: string, nowMs: number): number {
  const now = new Date(nowMs)
  const today = `${now.getFullYear()}-${String(now.getMonth() + 1).padStart(2, '0')}-${String(now.getDate()).padStart(2, '0')}`
  if (/^\d\d:\d\d(:\d\d)?$/.test(text)) return Date.parse(`${today}T${text}`)
  // A date alone means local midnight, like a time without a zone; Date.parse would take it as UTC.
  if (/^\d{4}-\d\d-\d\d$/.test(text)) return Date.parse(`${text}T00:00`)
  return /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d/.test(text) ? Date.parse(text.replace(' ', 'T')) : Number.NaN
}

export const scriptOptions = {
  pre: option('script', 'run on the server before the files are put in place'),
  post: option('script', 'run on the server afterwards, in the target directory'),
  command: option('script', 'alias of --post')
} as const

/** Options that select the files to pack. */
export const packOptions = {
  out: option('dir', 'directory to pack, instead of outputDir'),
  ignore: option('glob', 'more files to leave out; separate several with commas', { repeatable: true }),
  'ignore-builtin': toggle('do not apply the built-in ignore rules', { default: true }),
  'list-ignored': toggle('print the files and directories that the ignore rules leave out')
} as const

/** Returns words for the tokens of the server that have the rights of a role. Help texts name the least role with these. */
export function tokenWith(role: AccessRole): string {
  if (role === 'viewer') return 'the admin token or any named one'
  return `the admin token or a named one with the role ${role}${role === 'admin' ? '' : ' or higher'}`
}

/**
 * Returns the closing paragraph of the help of commands for one project, which its deploy token permits, too: the least
 * role, and the sources of the address and the token.
 */
export const projectDetails = (role: AccessRole): string =>
  `This command needs ${tokenWith(role)} (--token, SVC_TOKEN, also in .env.local, or "svc login"), or\n` +
  'the deploy token of the project (--token, SVC_DEPLOY_TOKEN, "svc login" or "svc init"). The address of the\n' +
  'server comes from --server, SVC_SERVER_URL, svc.config.json or the global configuration.'

/** Returns the closing paragraph of the help of commands for the server, as `projectDetails` does. */
export const adminDetails = (role: AccessRole): string =>
  `The token is ${tokenWith(role)}. It comes from --token, SVC_TOKEN (also in\n` +
  '.env.local) or the global configuration. The address of the server comes from --server, SVC_SERVER_URL,\n' +
  'svc.config.json or the global configuration.'
