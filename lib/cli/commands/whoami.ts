import { Refusal } from '../../base/refusal.js'
import type { EffectiveConfig, SourcedToken } from '../../config/precedence.js'
import { maySend } from '../../config/token-origin.js'
import type { TokenHolder } from '../../model/token-holder.js'
import { createApi } from '../api.js'
import { createClient } from '../client.js'
import { defineCommand, exitCodes, type Context } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { loadConfiguration, serverUrlOf } from '../session.js'

interface Checked {
  /** What the configuration takes it for. */
  kind: 'admin' | 'deploy'
  from: string
  role: string | null
  project: TokenHolder['project']
  /** Why it is not usable; null: it is. */
  problem: string | null
}

export const command = defineCommand({
  operands: {},
  options: {
    env: sharedOptions.env,
    server: sharedOptions.server,
    token: sharedOptions.token,
    json: { type: 'switch', help: 'print {server, tokens} as JSON' }
  },
  details: 'Asks the server what each token is for that svc would use in this directory. Exit code 1 if none is valid.',
  examples: [['whoami', 'show which tokens are used in this directory']],
  async run({ options }, context) {
    const { env, server, token } = options
    const { config } = await loadConfiguration(context, { flags: { server, token }, env, project: 'optional' })
    const address = serverUrlOf(config, context.command).value
    const tokens = await Promise.all(tokensOf(config).map(([kind, found]) => check(kind, found, address, context)))
    if (options.json) context.output.json({ server: address, tokens })
    else print(address, tokens, context)
    return tokens.some(({ problem }) => problem === null) ? exitCodes.success : exitCodes.failed
  }
})

/** A token that is both, as one of --token, once. */
function tokensOf({ adminToken, deployToken }: EffectiveConfig): Array<[Checked['kind'], SourcedToken]> {
  const deploy: Array<[Checked['kind'], SourcedToken]> = deployToken !== null && deployToken.value !== adminToken?.value ? [['deploy', deployToken]] : []
  return [...(adminToken === null ? [] : [['admin', adminToken] as [Checked['kind'], SourcedToken]]), ...deploy]
}

async function check(kind: Checked['kind'], token: SourcedToken, serverUrl: string, { env }: Context): Promise<Checked> {
  const { from } = token
  const failed = (problem: string): Checked => ({ kind, from, role: null, project: null, problem })
  if (!maySend(token, serverUrl)) return failed(`not sent (it belongs to ${token.origin})`)
  try {
    const holder = await createApi(createClient({ serverUrl, token: { ...token, from }, env })).whoami()
    if (holder === null) return failed('not checked (the server is too old to tell what it is for)')
    return { kind, from, role: holder.role, project: holder.project, problem: null }
  } catch (error) {
    if (error instanceof Refusal) return failed(`not accepted (${error.message})`)
    throw error
  }
}

function print(address: string, tokens: readonly Checked[], { output }: Context): void {
  if (tokens.length === 0) output.print(`${address}: no token. "svc login" stores one`)
  for (const { kind, from, role, project, problem } of tokens) {
    const what = problem !== null ? `${kind} token ${problem}` : (role === 'admin' ? 'admin token' : project === null ? 'global deploy token' : `deploy token of ${project.name} (${project.id})`)
    output.print(`${address}: ${what}, from ${from}`)
  }
}
