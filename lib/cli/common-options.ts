import { unprintableIn } from '../base/one-line.js'
import { maxMessageLength } from '../model/deployment.js'
import { usage } from './args.js'

/** Option rows that several commands have in common. */
export const sharedOptions = {
  server: { type: 'text', value: 'url', help: "the server's address; may have a path" },
  adminToken: { type: 'text', value: 'token', help: 'the admin token; "-" reads it from standard input' },
  token: { type: 'text', value: 'token', help: 'the admin token or the deploy token; "-" reads it from standard input' },
  project: { type: 'text', value: 'id', complete: 'projects', help: 'the project whose stored deploy token is used' },
  env: { type: 'text', alias: 'e', value: 'name', complete: 'environments', help: 'the environment: reads svc.config.<name>.json; "default" is svc.config.json' },
  message: { type: 'text', alias: 'm', value: 'text', help: 'what this deployment is about, in one line' },
  json: { type: 'switch', help: 'print the result as JSON' },
  yes: { type: 'switch', alias: 'y', help: 'do not ask' }
} as const

/** Refuses a --message that the server would refuse, before anything is packed. */
export function checkMessage(message = ''): void {
  if (message.length > maxMessageLength) throw usage('--message', `--message is too long: at most ${maxMessageLength} characters`)
  const found = unprintableIn(message)
  if (found !== null) throw usage('--message', `--message must be one line of visible characters: it contains ${found}`)
}

/** What decides which files are packed. */
export const packOptions = {
  out: { type: 'text', value: 'dir', help: 'the directory to pack, instead of outputDir' },
  ignore: { type: 'text', value: 'glob', repeatable: true, help: 'leave these files out as well; a list has commas' },
  'ignore-builtin': { type: 'switch', default: true, help: 'do not apply the built-in ignore rules' }
} as const

/** Where commands for one project take the server's address and a token from; for the end of their help. */
export const projectDetails =
  'The token is the admin token (--token, SVC_TOKEN, also in .env.local, or "svc login"), or the deploy token of the\n' +
  'project (--token, SVC_DEPLOY_TOKEN, "svc login" or "svc init"). The address is taken from --server, SVC_SERVER_URL,\n' +
  'svc.config.json, or the global configuration.'

/** Where commands that manage the server take its address and token from; for the end of their help. */
export const adminDetails =
  'The token is taken from --token, SVC_TOKEN (also in .env.local), or the global configuration; the address from\n' +
  '--server, SVC_SERVER_URL, svc.config.json, or the global configuration.'
