import { Refusal } from '../../base/errors.js'
import { closest, tokenOf, parseHttpUrl } from '../../base/text.js'
import {
  adminTokenOrigin,
  type ClientConfig,
  maySend,
  parseServerUrl,
  projectTokenOrigin,
  readClientConfig,
  selectEnvironment,
  storeAdminToken,
  storeProjectTokens,
  writeClientConfig
} from '../../base/config/client-config.js'
import { readDotenv } from '../../base/config/files.js'
import { type GlobalConfig, locateHome, readConfig, writeConfig } from '../../base/config/home.js'
import { configRows, maskToken } from '../../base/config/precedence.js'
import { loadConfiguration } from '../client/session.js'
import { type Context, defineCommand, exitCodes, type Family, option, toggle, usage, type Command } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { readSecret } from '../terminal/prompt.js'
import { splitList } from '../terminal/words.js'
import { readVersion } from '../../base/config/version.js'
import { telemetryState, type TelemetryState } from '../../operate/telemetry.js'

type Reader = (key: string, text: string) => unknown

const asText: Reader = (_, text) => text
const asList: Reader = (_, text) => splitList(text)
const asSwitch: Reader = (key, text) => {
  if (/^(true|1)$/.test(text)) return true
  if (/^(false|0)$/.test(text)) return false
  throw usage(key, `${key} cannot be "${text}": it must be true or false`)
}
const asUrl: Reader = (key, text) => {
  const url = parseServerUrl(text)
  if (url === null)
    throw usage(key, `${key} cannot be "${text}": it must be an address like "https://deploy.example.com"`)
  return url
}

/** The keys that can be set, how to parse their values, and the files that can contain them (§2.13). */
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

/** The project file to change, with its environment (null: svc.config.json). Null if there is no such file. */
type Place = { env: string | null; config: ClientConfig } | null

const secretKeys = ['adminToken', 'supervisedToken', 'token']
const secretMaps = ['projectToken', 'adminTokens'] as const
const mapKeys: readonly string[] = [...secretMaps, 'projectTokenOrigin']

/** The commands for the configuration of this installation, and for its usage statistics. */
export const commands = {
  config: defineCommand({
    options: { env: sharedOptions.env, json: toggle('print the rows as JSON') },
    details:
      'Options override the environment and .env.local, which override svc.config.json, which overrides the global\n' +
      'file. For each token the last four characters are shown, and the only server that svc sends it to. Scripts\n' +
      'configured on the server override those shown here.',
    examples: [
      ['config', 'show the values that "svc push" would use here, and their sources'],
      ['config --env staging', 'show the values for svc.config.staging.json']
    ],
    async run({ options }, context) {
      const { output } = context
      const { config, layers } = await loadConfiguration(context, { flags: {}, env: options.env, project: 'optional' })
      const rows = configRows(config)
      if (options.json) return output.json(rows)
      if (layers.project === null)
        output.note('No svc.config.json was found here: showing values from other sources only.')
      output.table(rows, [
        { header: 'KEY', cell: row => row.key },
        { header: 'VALUE', cell: row => row.value, shrinkTo: 12 },
        { header: 'SOURCE', cell: row => row.source },
        {
          header: 'FROM',
          cell: row => (row.from === row.source ? '' : row.from),
          shrinkTo: 12,
          paint: output.paint.dim
        },
        {
          header: 'SENT TO',
          cell: ({ origin }) => (origin === undefined ? '' : (origin ?? 'any server')),
          shrinkTo: 12
        }
      ])
      const { serverUrl, adminToken, deployToken } = config
      for (const [what, token] of [
        ['admin token', adminToken],
        ['deploy token', deployToken]
      ] as const) {
        if (token === null || serverUrl === null || maySend(token, serverUrl.value)) continue
        output.warn(`the ${what} is not sent to ${serverUrl.value}: it belongs to ${token.origin}`)
      }
    }
  }),

  'config:set': defineCommand({
    operands: {
      key: { required: true, help: `one of ${Object.keys(keys).join(', ')}` },
      value: { required: true, help: 'value; "-" reads it from standard input; separate list items with commas' }
    },
    options: {
      global: toggle('change the global file even if there is a svc.config.json', { alias: 'g' }),
      env: option('name', 'environment: change svc.config.<name>.json, or store a token for it', { alias: 'e' }),
      server: { ...sharedOptions.server, help: 'server that a token is for' }
    },
    details:
      'Stores a value in svc.config.json if there is one here, else in the global file. Tokens are always stored in\n' +
      'the global file: as the deploy token of the project here, or with --global as the token of the server (the admin\n' +
      'token or a named one), which "svc list", "rollback" and other commands use.\n\n' +
      'svc sends a token only to the server that it is stored for. That is --server, else SVC_SERVER_URL, else for\n' +
      'a deploy token the server in svc.config.json or .env.local, else the server in the global configuration.\n' +
      'Servers are told apart by host and port, not by path.',
    examples: [
      ['config:set serverUrl https://deploy.example.com --global', 'set the default server of all projects'],
      ['config:set token - < token.txt', 'store the deploy token of the project in this directory'],
      ['config:set token - --env staging', 'store the deploy token of its environment "staging"'],
      [
        'config:set token - --global --server https://deploy.example.com',
        'store the admin token of a server, or a named one'
      ]
    ],
    async run({ options, operands }, context) {
      const { key } = operands
      const row = Object.hasOwn(keys, key) ? keys[key] : undefined
      if (row === undefined) throw unknownKey(key)
      const given = await readSecret(context.host, key, operands.value)
      const text = key === 'token' ? tokenOf(given, key) : given.trim()
      if (text === '') throw usage(key, `${key} cannot be empty`)
      const value = row.read(key, text)
      if (options.server !== undefined && key !== 'token')
        throw usage('--server', '--server can only be used with the key "token"')
      const server = options.server === undefined ? undefined : (asUrl('--server', options.server) as string)
      const place = options.global ? null : await findPlace(context.cwd, options.env)
      if (key === 'token') return setToken(text, { server, env: options.env, place }, context)
      if (row.project && place !== null) return setInProject({ key, value }, place, context)
      if (row.global && (options.global || options.env === undefined)) {
        const config = await setGlobal(config => void (config[key] = value), context)
        return say(`${key} = ${config[key]}`, context)
      }
      throw new Refusal(
        'not_found',
        'no_client_config',
        `Cannot store ${key}: there is no svc.config.json here. Run "svc init" to create one`
      )
    }
  }),

  'config:list': defineCommand({
    options: { json: toggle('print the configuration as JSON, with tokens masked') },
    examples: [['config:list', 'show the global configuration, with only the last four characters of tokens']],
    async run({ options }, { env, cwd, output }) {
      const home = locateHome(env, cwd)
      const config = masked(await readConfig(home))
      if (options.json) return output.json(config)
      output.note(home.configFile)
      const rows = Object.entries(config).flatMap(([key, value]) =>
        mapKeys.includes(key)
          ? Object.entries(value as Record<string, string>).map(([project, text]) => [`${key} ${project}`, text])
          : [[key, typeof value === 'string' ? value : JSON.stringify(value)]]
      )
      if (rows.length === 0) output.note('Nothing is configured yet.')
      else {
        output.table(rows, [
          { header: 'KEY', cell: row => row[0] ?? '' },
          { header: 'VALUE', cell: row => row[1] ?? '', shrinkTo: 12 }
        ])
      }
    }
  }),

  home: defineCommand({
    options: { json: toggle('print all paths in the data directory as JSON') },
    details: 'The default is ~/.svc. SVC_HOME sets another directory.',
    examples: [['home', 'print the directory of the configuration, database and archives']],
    async run({ options }, { env, cwd, output }) {
      const home = locateHome(env, cwd)
      output.result(options.json, home, home.directory)
    }
  }),

  version: defineCommand({
    examples: [['version', 'print the version, like "svc --version"']],
    async run(_, { output }) {
      output.print(readVersion())
    }
  }),

  'telemetry:status': defineCommand({
    options: { json: sharedOptions.json },
    details: 'SVC_TELEMETRY_ENDPOINT overrides the endpoint that "svc telemetry:endpoint" stores.',
    examples: [['telemetry:status', 'show whether reports are sent, what they contain, and where they go']],
    async run({ options: { json } }, context) {
      print(context, await readConfig(locateHome(context.env, context.cwd)), json)
    }
  }),

  'telemetry:on': switching(true, {
    details: 'Usage statistics are on by default, but nothing is sent without an endpoint (svc telemetry:endpoint).',
    examples: [['telemetry:on', 'turn reports on again after telemetry:off']]
  }),

  'telemetry:off': switching(false, {
    details: 'No reports are sent after this, even if an endpoint is configured (SVC_TELEMETRY_ENDPOINT, too).',
    examples: [['telemetry:off', 'stop sending reports from this machine']]
  }),

  'telemetry:endpoint': defineCommand({
    operands: { url: { required: true, help: 'address to post reports to; "default" or "reset" removes it' } },
    options: { json: sharedOptions.json },
    details:
      'There is no built-in address, so nothing is sent by default. Every svc server can collect reports at\n' +
      '/api/public/telemetry/report, and shows them at /api/public/telemetry/overview.',
    examples: [
      ['telemetry:endpoint https://deploy.example.com/api/public/telemetry/report', 'send reports to your own server'],
      ['telemetry:endpoint default', 'remove the address']
    ],
    async run({ options, operands }, context) {
      const { url } = operands
      const isReset = url === 'default' || url === 'reset'
      if (!isReset && parseHttpUrl(url) === null)
        throw usage('url', `<url> cannot be "${url}": it must be an http or https address, or "default"`)
      await change(context, options.json, config => {
        if (isReset) delete config.telemetryEndpoint
        else config.telemetryEndpoint = url
      })
    }
  })
} satisfies Family

function unknownKey(key: string): Refusal {
  if (key === 'adminToken')
    return usage(
      key,
      '"adminToken" cannot be set here. Use "svc admin reset-password" to change the admin token of the server'
    )
  const names = Object.keys(keys)
  const meant = closest(key, names)
  return usage(
    key,
    `Unknown key "${key}": ${meant === undefined ? `choose one of ${names.join(', ')}` : `did you mean "${meant}"?`}`
  )
}

async function findPlace(directory: string, wanted: string | undefined): Promise<Place> {
  const selection = await selectEnvironment(directory, wanted ?? null)
  if (selection.outcome === 'none') return null
  if (selection.outcome === 'ambiguous' && !selection.hasDefault) {
    throw usage(
      '--env',
      `There are several environments here: choose one with --env (${selection.environments.join(', ')}), or use --global`
    )
  }
  const env = selection.outcome === 'ambiguous' ? null : selection.env
  return { env, config: (await readClientConfig(directory, env)).config }
}

interface TokenPlace {
  place: Place
  env: string | undefined
  /** `--server`. */
  server: string | undefined
}

async function setToken(token: string, { place, env, server }: TokenPlace, context: Context): Promise<number> {
  if (place === null && env !== undefined)
    throw usage('--env', '--env cannot be used with --global: an environment belongs to a project')
  const named = server ?? (context.env['SVC_SERVER_URL'] || undefined)
  if (place === null) {
    // The files of a checkout must not decide which server gets the admin token.
    const config = await setGlobal(config => storeAdminToken(config, token, named ?? config.serverUrl), context)
    return say(`token = ${maskToken(token)} for ${adminTokenOrigin(config)}`, context)
  }
  const { projectId, serverUrl } = place.config
  const name = place.env === null ? projectId : `${projectId}:${place.env}`
  const own = named ?? (await readDotenv(context.cwd, 'client')).values.SVC_SERVER_URL ?? serverUrl
  const config = await setGlobal(
    config => storeProjectTokens(config, { [name]: token }, own ?? config.serverUrl),
    context
  )
  return say(`projectToken ${name} = ${maskToken(token)} for ${projectTokenOrigin(config, name)}`, context)
}

async function setInProject(
  { key, value }: { key: string; value: unknown },
  { env, config }: NonNullable<Place>,
  { cwd, output }: Context
): Promise<number> {
  const path = await writeClientConfig(cwd, env, { ...config, [key]: value })
  output.print(`${key} = ${Array.isArray(value) ? value.join(', ') : value} (${path})`)
  return exitCodes.success
}

async function setGlobal(change: (config: GlobalConfig) => void, { env, cwd }: Context): Promise<GlobalConfig> {
  return writeConfig(locateHome(env, cwd), change)
}

function say(what: string, { env, cwd, output }: Context): number {
  output.print(`${what} (${locateHome(env, cwd).configFile})`)
  return exitCodes.success
}

function masked(config: GlobalConfig): GlobalConfig {
  const shown = { ...config }
  for (const key of secretKeys) if (typeof shown[key] === 'string') shown[key] = maskToken(shown[key])
  for (const key of secretMaps) {
    const tokens = shown[key]
    if (tokens !== undefined)
      shown[key] = Object.fromEntries(Object.entries(tokens).map(([name, token]) => [name, maskToken(token)]))
  }
  return shown
}

/** The output of the `telemetry:*` commands with `--json`. */
interface TelemetryAnswer {
  enabled: boolean
  endpoint: string | null
  source: TelemetryState['source']
  instanceId: string | null
  /** Whether reports are sent. */
  sends: boolean
  fields: readonly string[]
}

/** All fields of a report (§6.6). */
const fields = ['event', 'ts', 'svcVersion', 'instanceId', 'os', 'arch'] as const

function print({ env, output }: Context, config: GlobalConfig, json: boolean): void {
  const state = telemetryState(config, env)
  const { isEnabled: enabled, source, instanceId, url } = state
  const endpoint = state.endpoint === null ? null : withoutPassword(state.endpoint)
  const answer: TelemetryAnswer = { enabled, endpoint, source, instanceId, sends: url !== null, fields }
  if (json) return output.json(answer)
  output.print(`Telemetry:   ${enabled ? 'on' : 'off'}`)
  output.print(`Endpoint:    ${endpoint === null ? 'none (there is no built-in endpoint)' : `${endpoint} (${source})`}`)
  output.print(`Instance id: ${instanceId ?? 'none yet (the first report generates a random one)'}`)
  output.print(verdict(state))
}

function verdict({ isEnabled, endpoint, url }: TelemetryState): string {
  if (!isEnabled) return 'Nothing is sent: telemetry is off.'
  if (endpoint === null) return 'Nothing is sent: no endpoint is configured.'
  if (url === null) return 'Nothing is sent: the endpoint is not an http or https address.'
  return `Each start of the server and each push is reported to ${url.host}, with only these fields: ${fields.join(', ')}.`
}

function withoutPassword(url: string): string {
  return url.replace(/\/\/[^/@]*@/, '//****@')
}

/** Changes the global configuration and prints the new state. */
async function change(context: Context, json: boolean, apply: (config: GlobalConfig) => void): Promise<void> {
  print(context, await writeConfig(locateHome(context.env, context.cwd), apply), json)
}

function switching(isOn: boolean, texts: Pick<Command, 'details' | 'examples'>): Command {
  return defineCommand({
    options: { json: sharedOptions.json },
    ...texts,
    run: ({ options: { json } }, context) => change(context, json, config => void (config.telemetryEnabled = isOn))
  })
}
