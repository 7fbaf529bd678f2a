import { Refusal } from '../../base/errors.js'
import { defaultServerUrl, maySend, originOf, parseServerUrl } from '../../base/config/client-config.js'
import { keyWarnings, locateHome } from '../../base/config/home.js'
import {
  effectiveConfig,
  type EffectiveConfig,
  type Flags,
  type Layers,
  loadLayers,
  type Sourced,
  type SourcedToken
} from '../../base/config/precedence.js'
import { isSameName } from '../../model/project.js'
import type { Context } from '../command.js'
import { flagsOf, projectHint } from '../hints.js'
import { ask, canAsk, choose, confirm, readTokenOption } from '../terminal/prompt.js'
import { type Client, createClient } from './client.js'
import { withNearNames, isProjectId, projectIdOfWord, whoami } from './named-project.js'

/** The configuration of a command, merged and by layer. */
interface Configuration {
  layers: Layers
  config: EffectiveConfig
}

/** Options of `loadConfiguration`. */
interface ConfigurationRequest {
  flags: Flags
  env: string | undefined
  /** As in `loadLayers`. */
  project: 'needed' | 'optional'
}

const defaultFile = 'svc.config.json'

/**
 * Loads the effective configuration for the current directory. If there are several environments, it asks on a terminal
 * and refuses elsewhere, naming them. Also reads the token of `--token -`.
 */
export async function loadConfiguration(context: Context, request: ConfigurationRequest): Promise<Configuration> {
  const { cwd, env, host, output } = context
  const { token } = request.flags
  const layers = await loadLayers({
    cwd,
    environment: env,
    home: locateHome(env, cwd),
    flags:
      token === undefined ? request.flags : { ...request.flags, token: await readTokenOption(host, '--token', token) },
    env: request.env ?? null,
    project: request.project,
    projectHint: projectHint(context.command),
    ...(canAsk(host) && { choose: choices => chooseEnvironment(context, choices) })
  })
  const ofGlobal = keyWarnings(layers.global.config, layers.global.path)
  for (const warning of [...(layers.project?.warnings ?? []), ...layers.dotenv.warnings, ...ofGlobal])
    output.warn(warning)
  return { layers, config: effectiveConfig(layers) }
}

async function chooseEnvironment({ host, output }: Context, choices: Array<string | null>): Promise<string | null> {
  output.note('There are several environments here:')
  const name = await choose(
    host,
    'Choose an environment',
    choices.map(choice => choice ?? defaultFile)
  )
  return name === defaultFile ? null : name
}

export interface AdminOptions {
  env: string | undefined
  server: string | undefined
  token: string | undefined
}

/** Loads the configuration and opens the API with a token of the server, for commands with `adminOptions`. */
export async function openAdmin(
  context: Context,
  { env, server, token }: AdminOptions,
  project?: string
): Promise<{ client: Client; config: EffectiveConfig }> {
  const { config } = await loadConfiguration(context, { flags: { server, token, project }, env, project: 'optional' })
  return { client: await openAdminApi(context, config), config }
}

/** Options of a command for one project. */
export type ProjectWish = AdminOptions & {
  /** Id or name of the project; undefined: the one in svc.config.json. */
  project?: string | undefined
}

/** The API, and the configuration with the id of the project, if the command line or a file names one. */
export interface Opened {
  client: Client
  config: EffectiveConfig
}

/**
 * Loads the configuration and opens the API with any token, for commands with `serverOptions`. `isNeeded` says whether
 * the command needs the project of svc.config.json.
 */
export async function openProject(context: Context, wish: ProjectWish, isNeeded = false): Promise<Opened> {
  const config = await projectConfiguration(context, wish, isNeeded)
  const named = await withStoredToken(context, config)
  const client = await openProjectApi(context, named)
  const isUsed = isNeeded || wish.project !== undefined
  return { client, config: isUsed ? await withProjectId(client, named) : named }
}

/** As `openProject` or `openProjectAsAdmin`, for the project that is named, or else that of svc.config.json. */
export async function openNamed(
  context: Context,
  wish: ProjectWish,
  open = openProject
): Promise<Opened & { projectId: string }> {
  const opened = await open(context, wish, wish.project === undefined)
  return { ...opened, projectId: projectIdOf(context, opened.config) }
}

/** As `openProject`, with a token of the server only. */
export async function openProjectAsAdmin(context: Context, wish: ProjectWish, isNeeded = true): Promise<Opened> {
  const config = await projectConfiguration(context, wish, isNeeded)
  const client = await openAdminApi(context, config)
  return { client, config: await withProjectId(client, config) }
}

/** Opens the API with the deploy token of the project. */
export async function openDeploy(context: Context, config: EffectiveConfig): Promise<Opened> {
  const named = await withStoredToken(context, config)
  const client = await openDeployApi(context, named)
  const isId = named.projectId === null || isProjectId(named.projectId.value)
  // The server refuses the push to an unknown id.
  return { client, config: isId ? named : await withProjectId(client, named) }
}

async function projectConfiguration(
  context: Context,
  { env, server, token, project }: ProjectWish,
  isNeeded: boolean
): Promise<EffectiveConfig> {
  const flags = { server, token, project }
  return (await loadConfiguration(context, { flags, env, project: isNeeded ? 'needed' : 'optional' })).config
}

/** Replaces the name of a project by its id. Refuses an unknown project. */
async function withProjectId(client: Client, config: EffectiveConfig): Promise<EffectiveConfig> {
  const { projectId } = config
  if (projectId === null) return config
  return { ...config, projectId: { ...projectId, value: await projectIdOfWord(client, projectId.value) } }
}

/**
 * Finds the stored deploy token of a project that is named by its name: tokens are stored by id, and the server knows
 * which name a token is for. Asks only where a token is missing, and only the server that each token belongs to.
 */
async function withStoredToken({ env }: Context, config: EffectiveConfig): Promise<EffectiveConfig> {
  const { projectId, serverUrl, deployToken, storedTokens } = config
  if (projectId === null || serverUrl === null || deployToken !== null || isProjectId(projectId.value)) return config
  for (const token of storedTokens.filter(token => maySend(token, serverUrl.value))) {
    const holder = await whoami(createClient({ serverUrl: serverUrl.value, token, env })).catch((error: unknown) => {
      // One that was replaced, for example.
      if (error instanceof Refusal && error.kind === 'unauthorized') return null
      throw error
    })
    const project = holder?.project ?? null
    if (project === null || !isSameName(project.name, projectId.value)) continue
    return { ...config, projectId: { ...projectId, value: project.id }, deployToken: token }
  }
  return config
}

/** Opens the API with the token of an admin or a named one (§4.13: `--token`, `SVC_TOKEN`, the global token). */
export async function openAdminApi(context: Context, config: EffectiveConfig): Promise<Client> {
  const token =
    config.adminToken ??
    missing(
      'no_token',
      `A token is missing. Give the admin token or a named one with ${flagsOf(context.command, 'token')}SVC_TOKEN, or store it with "svc login"`
    )
  return openApi(context, config, { what: 'admin token', token, store: 'svc login --server' })
}

/**
 * Opens the API for a command that works on one project: with a token of the server, or with the deploy token of the project
 * if there is no admin token for this server.
 */
export async function openProjectApi(context: Context, config: EffectiveConfig): Promise<Client> {
  const { adminToken, deployToken, serverUrl } = config
  const isForHere = (token: SourcedToken): boolean => serverUrl !== null && maySend(token, serverUrl.value)
  if (deployToken !== null && (adminToken === null || (!isForHere(adminToken) && isForHere(deployToken))))
    return openDeployApi(context, config)
  if (adminToken !== null) return openAdminApi(context, config)
  return missing(
    'no_token',
    "A token is missing. Give the admin token, a named one or the project's deploy token with " +
      `${flagsOf(context.command, 'token')}SVC_TOKEN or SVC_DEPLOY_TOKEN, or store it with "svc login"`
  )
}

/** Opens the API with the deploy token of the project. */
async function openDeployApi(context: Context, config: EffectiveConfig): Promise<Client> {
  const token =
    config.deployToken ??
    missing(
      'no_token',
      `The deploy token is missing. Use ${flagsOf(context.command, 'token')}SVC_DEPLOY_TOKEN, ` +
        'or store it with "svc login" or "svc config:set token -"'
    )
  return openApi(context, config, { what: 'deploy token', token, store: 'svc login --server' })
}

/** The token to open the API with. */
interface Access {
  /** Name of the token in sentences. */
  what: string
  token: SourcedToken
  /** Command that stores a token for another server, without the address at its end. */
  store: string
}

/**
 * Opens the API. Before a token goes to an origin that it is not stored for, it asks on a terminal and refuses
 * elsewhere. The author of a checkout chooses the server in its files, and must not receive the tokens of other users.
 */
async function openApi(
  { env, host, output, command }: Context,
  config: EffectiveConfig,
  { what, token, store }: Access
): Promise<Client> {
  const address = serverUrlOf(config, command)
  const origin = originOf(address.value)
  if (maySend(token, origin)) return withNearNames(createClient({ serverUrl: address.value, token, env }))
  const why = `it belongs to ${token.origin}, and ${address.from} names another server`
  if (canAsk(host)) {
    output.note(`The ${what} from ${token.from}: ${why}.`)
    const isAllowed = await confirm(host, `Send the ${what} to ${origin}?`)
    if (isAllowed) return withNearNames(createClient({ serverUrl: address.value, token: { ...token, origin }, env }))
  }
  const advice = `Give a token for that server with ${flagsOf(command, 'token')}the environment, or store one with "${store} ${address.value}"`
  throw new Refusal(
    'forbidden',
    'token_elsewhere',
    `The ${what} from ${token.from} was not sent to ${origin}: ${why}. ${advice}`
  )
}

/** Returns the address of the server. Refuses (`invalid`) no_server if none is configured. */
export function serverUrlOf(config: EffectiveConfig, command: Context['command']): Sourced<string> {
  return (
    config.serverUrl ??
    missing(
      'no_server',
      `The server's address is missing. Use ${flagsOf(command, 'server')}` +
        'SVC_SERVER_URL, or store it with "svc config:set serverUrl <url>"'
    )
  )
}

/** Returns the id of the project. Refuses (`invalid`) no_project if none is configured. */
export function projectIdOf({ command }: Context, config: EffectiveConfig): string {
  return (
    config.projectId ??
    missing(
      'no_project',
      `The project is missing. Run this in the directory of its svc.config.json (with --env if there are several)` +
        (projectHint(command) === null ? '' : `, or ${projectHint(command)}`)
    )
  ).value
}

function missing(code: string, sentence: string): never {
  throw new Refusal('invalid', code, sentence)
}

/** Status of a server that is starting. Its address is right, so it counts as an answer. */
const unhealthy = 503

/**
 * Asks for the address of a server until an svc server answers there. Accepts an address that the user enters twice,
 * since its server may not be running yet.
 */
export async function askServer({ host, env, output }: Context, known: string | undefined): Promise<string> {
  let suggested = known ?? defaultServerUrl
  let refused: string | null = null
  for (;;) {
    const answer = await ask(host, 'Server address', suggested)
    const address = parseServerUrl(answer)
    if (address === null) {
      output.note(`"${answer}" is not an address. Enter one like "https://deploy.example.com".`)
      continue
    }
    if (address === refused) return address
    const problem = await problemAt(address, env)
    if (problem === null) return address
    output.note(`${problem}.`)
    output.note('Enter another address, or the same one again to keep it.')
    refused = address
    suggested = address
  }
}

/** Returns why no svc server answers at an address, or null if one does. */
export async function problemAt(serverUrl: string, env: Context['env']): Promise<string | null> {
  try {
    await createClient({ serverUrl, token: null, env }).json({
      path: '/api/health',
      alsoStatus: unhealthy,
      answerLimitMs: 10_000
    })
    return null
  } catch (error) {
    if (error instanceof Refusal) return error.message
    throw error
  }
}
