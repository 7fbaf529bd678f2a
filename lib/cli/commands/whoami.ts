import { oneLine } from '../../base/text.js'
import { Refusal } from '../../base/errors.js'
import type { EffectiveConfig, SourcedToken } from '../../config/precedence.js'
import { maySend } from '../../config/token-origin.js'
import type { TokenHolder } from '../../model/token-holder.js'
import { endOf } from '../named-tokens.js'
import { createApi } from '../client/api.js'
import { createClient } from '../client/client.js'
import { defineCommand, exitCodes, type Context } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { loadConfiguration, serverUrlOf } from '../client/session.js'

/** A token and the answer of the server about it. */
interface Checked {
  /** The kind of token that the configuration says it is. */
  kind: 'admin' | 'deploy'
  from: string
  role: string | null
  project: TokenHolder['project']
  /** The named token; null: another kind. */
  named: NonNullable<TokenHolder['token']> | null
  /** The projects that it is limited to; null: none. */
  projects: TokenHolder['projects']
  /** Why the token cannot be used; null if it is valid. */
  problem: string | null
}

/** The command `svc whoami`. */
export const command = defineCommand({
  operands: {},
  options: {
    env: sharedOptions.env,
    server: sharedOptions.server,
    token: sharedOptions.token,
    json: { type: 'switch', help: 'print {server, tokens} as JSON' }
  },
  details:
    'Asks the server about each token that svc would use in this directory. The exit code is 1 if none is valid.',
  examples: [['whoami', 'show the tokens that svc uses in this directory']],
  async run({ options }, context) {
    const { env, server, token } = options
    const { config } = await loadConfiguration(context, { flags: { server, token }, env, project: 'optional' })
    const address = serverUrlOf(config, context.command).value
    const tokens = await Promise.all(tokensOf(config).map(held => check(held, address, context)))
    if (options.json) context.output.json({ server: address, tokens })
    else print(address, tokens, context)
    return tokens.some(({ problem }) => problem === null) ? exitCodes.success : exitCodes.failed
  }
})

type HeldToken = [kind: Checked['kind'], token: SourcedToken]

/** Returns the tokens of the configuration. A token that is both kinds, such as one of --token, is listed once. */
function tokensOf({ adminToken, deployToken }: EffectiveConfig): HeldToken[] {
  const held: HeldToken[] = []
  if (adminToken !== null) held.push(['admin', adminToken])
  if (deployToken !== null && deployToken.value !== adminToken?.value) held.push(['deploy', deployToken])
  return held
}

async function check([kind, token]: HeldToken, serverUrl: string, { env }: Context): Promise<Checked> {
  const { from } = token
  const failed = (problem: string): Checked => ({
    kind,
    from,
    role: null,
    project: null,
    named: null,
    projects: null,
    problem
  })
  if (!maySend(token, serverUrl)) return failed(`not sent (it belongs to ${token.origin})`)
  try {
    const holder = await createApi(createClient({ serverUrl, token: { ...token, from }, env })).whoami()
    if (holder === null) return failed('not checked (the server is too old to check tokens)')
    const { role, project, token: named = null, projects = null } = holder
    return { kind, from, role, project, named, projects, problem: null }
  } catch (error) {
    if (error instanceof Refusal) return failed(`not accepted (${error.message})`)
    throw error
  }
}

function print(address: string, tokens: readonly Checked[], { output }: Context): void {
  if (tokens.length === 0) output.print(`${address}: no token. Use "svc login" to store one`)
  for (const checked of tokens) {
    const { kind, from, role, project, named, problem } = checked
    const what =
      problem !== null
        ? `${kind} token ${problem}`
        : named !== null
          ? describeNamed(named, checked)
          : role === 'admin'
            ? 'admin token'
            : project === null
              ? 'global deploy token'
              : `deploy token of ${project.name} (${project.id})`
    output.print(`${address}: ${what}, from ${from}`)
  }
}

function describeNamed(named: NonNullable<Checked['named']>, { role, projects }: Checked): string {
  const scope = projects == null ? 'all projects' : projects.map(({ name }) => name).join(', ')
  return oneLine(`token "${named.name}": ${role} of ${scope}, ${endOf({ ...named, revokedAt: null }, Date.now())}`)
}
