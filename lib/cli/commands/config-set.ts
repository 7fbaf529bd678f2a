import { Refusal } from '../../base/refusal.js'
import {
  parseServerUrl,
  readClientConfig,
  selectEnvironment,
  writeClientConfig,
  type ClientConfig
} from '../../config/client-config.js'
import { locateHome, writeConfig, type GlobalConfig } from '../../config/home.js'
import { maskToken } from '../../config/precedence.js'
import { usage } from '../args.js'
import { defineCommand, exitCodes, type Context } from '../command.js'
import { readSecret } from '../prompt.js'
import { closest } from '../suggest.js'

type Reader = (key: string, text: string) => unknown

const asText: Reader = (_, text) => text
const asList: Reader = (_, text) =>
  text
    .split(',')
    .map(item => item.trim())
    .filter(Boolean)
const asSwitch: Reader = (key, text) => {
  if (/^(true|1)$/.test(text)) return true
  if (/^(false|0)$/.test(text)) return false
  throw usage(key, `${key} cannot be "${text}": it is true or false`)
}
const asUrl: Reader = (key, text) => {
  const url = parseServerUrl(text)
  if (url === null) throw usage(key, `${key} cannot be "${text}": it is an address like "https://deploy.example.com"`)
  return url
}

/** What can be set, how the word is read, and in which files it has a place (§2.13). */
const keys: Record<string, { read: Reader; project: boolean; global: boolean }> = {
  serverUrl: { read: asUrl, project: true, global: true },
  token: { read: asText, project: false, global: true },
  telemetryEndpoint: { read: asUrl, project: false, global: true },
  projectId: { read: asText, project: true, global: false },
  outputDir: { read: asText, project: true, global: false },
  files: { read: asList, project: true, global: false },
  ignore: { read: asList, project: true, global: false },
  ignoreBuiltin: { read: asSwitch, project: true, global: false },
  preDeploy: { read: asText, project: true, global: false },
  postDeploy: { read: asText, project: true, global: false },
  postDeployAsync: { read: asSwitch, project: true, global: false }
}

/** The project file that is meant here: its environment (null: svc.config.json), or none. */
type Place = { env: string | null; config: ClientConfig } | null

export const command = defineCommand({
  operands: {
    key: { required: true, help: `one of ${Object.keys(keys).join(', ')}` },
    value: { required: true, help: 'its value; "-" reads it from standard input; a list has commas' }
  },
  options: {
    global: { type: 'switch', alias: 'g', help: 'the global file, also where there is a svc.config.json' },
    env: {
      type: 'text',
      alias: 'e',
      value: 'name',
      help: 'svc.config.<name>.json; a token is kept for that environment'
    }
  },
  details:
    'Where there is a svc.config.json a value goes there, else into the global file. A token never goes there: it is\n' +
    'kept in the global file, as the deploy token of the project here, or with --global as the admin token of "svc list",\n' +
    '"status", "logs" and "rollback".',
  examples: [
    ['config:set serverUrl https://deploy.example.com --global', 'the server of every project without one of its own'],
    ['config:set token - < token.txt', 'the deploy token of the project of this directory'],
    ['config:set token - --env staging', 'the same for its environment "staging"']
  ],
  async run({ options, operands }, context) {
    const { key } = operands
    const row = Object.hasOwn(keys, key) ? keys[key] : undefined
    if (row === undefined) throw unknownKey(key)
    const text = await readSecret(context.host, key, operands.value)
    if (text === '') throw usage(key, `${key} cannot be empty`)
    const value = row.read(key, text)
    const place = options.global ? null : await findPlace(context.cwd, options.env)
    if (key === 'token') return setToken(text, { ...options, place }, context)
    if (row.project && place !== null) return setInProject(key, value, place, context)
    if (row.global && (options.global || options.env === undefined))
      return setGlobal(key, config => void (config[key] = value), context)
    throw new Refusal(
      'not_found',
      'no_client_config',
      `${key} could not be stored: it belongs in svc.config.json, and there is none here ("svc init" writes one)`
    )
  }
})

function unknownKey(key: string): Refusal {
  if (key === 'adminToken')
    return usage(key, 'The server\'s own admin token is changed with "svc admin reset-password"')
  const names = Object.keys(keys)
  const meant = closest(key, names)
  return usage(
    key,
    `unknown key "${key}": ${meant === undefined ? `it is one of ${names.join(', ')}` : `did you mean "${meant}"?`}`
  )
}

async function findPlace(directory: string, wanted: string | undefined): Promise<Place> {
  const selection = await selectEnvironment(directory, wanted ?? null)
  if (selection.outcome === 'none') return null
  if (selection.outcome === 'ambiguous' && !selection.hasDefault) {
    throw usage('--env', `which file is meant? Say it with --env (${selection.environments.join(', ')}), or --global`)
  }
  const env = selection.outcome === 'ambiguous' ? null : selection.env
  return { env, config: (await readClientConfig(directory, env)).config }
}

async function setToken(
  token: string,
  { place, env }: { place: Place; env: string | undefined },
  context: Context
): Promise<number> {
  if (place === null && env !== undefined) {
    throw usage('--env', '--env cannot be used with --global: the token of an environment belongs to the project here')
  }
  if (place === null) return setGlobal('token', config => void (config.token = token), context)
  const { projectId } = place.config
  const name = place.env === null ? projectId : `${projectId}:${place.env}`
  return setGlobal(
    `projectToken ${name}`,
    config => void (config.projectToken = { ...config.projectToken, [name]: token }),
    context,
    token
  )
}

async function setInProject(
  key: string,
  value: unknown,
  { env, config }: NonNullable<Place>,
  { cwd, output }: Context
): Promise<number> {
  const path = await writeClientConfig(cwd, env, { ...config, [key]: value })
  output.print(`${key} = ${Array.isArray(value) ? value.join(', ') : value} (${path})`)
  return exitCodes.success
}

async function setGlobal(
  name: string,
  change: (config: GlobalConfig) => void,
  { env, cwd, output }: Context,
  secret?: string
): Promise<number> {
  const home = locateHome(env, cwd)
  const config = await writeConfig(home, change)
  const token = secret ?? (name === 'token' ? config.token : undefined)
  output.print(`${name} = ${token === undefined ? config[name] : maskToken(token)} (${home.configFile})`)
  return exitCodes.success
}
