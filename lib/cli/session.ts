import { Refusal } from '../base/refusal.js'
import { locateHome } from '../config/home.js'
import {
  effectiveConfig,
  loadLayers,
  type EffectiveConfig,
  type Flags,
  type Layers,
  type Sourced,
  type SourcedToken
} from '../config/precedence.js'
import { maySend, originOf } from '../config/token-origin.js'
import { createApi, type Api } from './api.js'
import { createClient } from './client.js'
import type { Context } from './command.js'
import { flagsOf, projectHint } from './hints.js'
import { canAsk, choose, confirm, readSecret } from './prompt.js'

export interface Configuration {
  layers: Layers
  config: EffectiveConfig
}

export interface ConfigurationRequest {
  flags: Flags
  env: string | undefined
  /** As in `loadLayers`. */
  project: 'needed' | 'optional'
}

const defaultFile = 'svc.config.json'

/**
 * The configuration that counts in the current directory. Where several environments are possible it asks on a
 * terminal, and refuses elsewhere, naming them. `--token -` is read here.
 */
export async function loadConfiguration(context: Context, request: ConfigurationRequest): Promise<Configuration> {
  const { cwd, env, host, output } = context
  const { token } = request.flags
  const layers = await loadLayers({
    cwd,
    environment: env,
    home: locateHome(env, cwd),
    flags: token === undefined ? request.flags : { ...request.flags, token: await readSecret(host, '--token', token) },
    env: request.env ?? null,
    project: request.project,
    projectHint: projectHint(context.command),
    ...(canAsk(host) && { choose: choices => chooseEnvironment(context, choices) })
  })
  for (const warning of layers.project?.warnings ?? []) output.warn(warning)
  return { layers, config: effectiveConfig(layers) }
}

async function chooseEnvironment({ host, output }: Context, choices: Array<string | null>): Promise<string | null> {
  output.note('There are several environments here:')
  const name = await choose(
    host,
    'Which one',
    choices.map(choice => choice ?? defaultFile)
  )
  return name === defaultFile ? null : name
}

/** The server's API with the admin token (§4.13: `--token`, `SVC_TOKEN`, the global token). */
export async function openAdminApi(context: Context, config: EffectiveConfig): Promise<Api> {
  const token =
    config.adminToken ??
    missing(
      'no_token',
      `The admin token is missing: give it with ${flagsOf(context.command, 'token')}SVC_TOKEN, or store it with "svc login"`
    )
  return openApi(context, config, { what: 'admin token', token, store: 'svc login --server' })
}

/**
 * The server's API with a token for what belongs to one project: the admin token, or the project's deploy token if there
 * is no admin token for this server.
 */
export async function openProjectApi(context: Context, config: EffectiveConfig): Promise<Api> {
  const { adminToken, deployToken, serverUrl } = config
  const isForHere = (token: SourcedToken): boolean => serverUrl !== null && maySend(token, serverUrl.value)
  if (deployToken !== null && (adminToken === null || (!isForHere(adminToken) && isForHere(deployToken)))) {
    return openDeployApi(context, config)
  }
  if (adminToken !== null) return openAdminApi(context, config)
  return missing(
    'no_token',
    `A token is missing: give the admin token or the project's deploy token with ${flagsOf(context.command, 'token')}SVC_TOKEN or ` +
      'SVC_DEPLOY_TOKEN, or store it with "svc login"'
  )
}

/** The server's API with the deploy token of the project. */
export async function openDeployApi(context: Context, config: EffectiveConfig): Promise<Api> {
  const token =
    config.deployToken ??
    missing(
      'no_token',
      `The deploy token is missing: give it with ${flagsOf(context.command, 'token')}SVC_DEPLOY_TOKEN, ` +
        'or store it with "svc login" or "svc config:set token -"'
    )
  return openApi(context, config, { what: 'deploy token', token, store: 'svc login --server' })
}

interface Access {
  what: string
  token: SourcedToken
  /** The command that stores the token for another server, but for its address. */
  store: string
}

/**
 * Asks on a terminal before it sends a token to another origin than that it is stored for, and refuses elsewhere: the
 * author of a checkout names its server, and must not get the tokens of its users.
 */
async function openApi({ env, host, output, command }: Context, config: EffectiveConfig, { what, token, store }: Access): Promise<Api> {
  const address = serverUrlOf(config, command)
  const origin = originOf(address.value)
  if (maySend(token, origin)) return createApi(createClient({ serverUrl: address.value, token, env }))
  const why = `it belongs to ${token.origin}, and ${address.from} names another server`
  if (canAsk(host)) {
    output.note(`The ${what} from ${token.from}: ${why}.`)
    const isAllowed = await confirm(host, `Send the ${what} to ${origin}?`)
    if (isAllowed) return createApi(createClient({ serverUrl: address.value, token: { ...token, origin }, env }))
  }
  const advice = `Give a token of that server with ${flagsOf(command, 'token')}the environment, or store one with "${store} ${address.value}"`
  throw new Refusal('forbidden', 'token_elsewhere', `The ${what} from ${token.from} was not sent to ${origin}: ${why}. ${advice}`)
}

/** The server's address. Refuses if nothing names one. */
export function serverUrlOf(config: EffectiveConfig, command: Context['command']): Sourced<string> {
  return (
    config.serverUrl ??
    missing(
      'no_server',
      `The server's address is missing: give it with ${flagsOf(command, 'server')}` +
        'SVC_SERVER_URL, or store it with "svc config:set serverUrl <url>"'
    )
  )
}

/** The project that is meant. */
export function projectIdOf({ command }: Context, config: EffectiveConfig): string {
  return (
    config.projectId ??
    missing(
      'no_project',
      `The project is missing: run this where its svc.config.json is (with --env where there are several)` +
        (projectHint(command) === null ? '' : `, or ${projectHint(command)}`)
    )
  ).value
}

function missing(code: string, sentence: string): never {
  throw new Refusal('invalid', code, sentence)
}
