import { oneLine } from '../../base/one-line.js'
import { listEnvironments, plainEnvironment } from '../../config/client-config.js'
import { maySend } from '../../config/token-origin.js'
import type { EffectiveConfig, SourcedToken } from '../../config/precedence.js'
import { createApi, type Api } from '../api.js'
import { usage, type CompletedValues } from '../args.js'
import { createClient } from '../client.js'
import { defineCommand, exitCodes, type Context } from '../command.js'
import { completedValues } from '../completion.js'
import { loadConfiguration } from '../session.js'
import { plainText } from '../terminal-text.js'

/** A shell waits for the answer while its user waits for the shell. */
const limitMs = 2000
const maxDeployments = 30

/** A value, and what it is. */
type Value = readonly [value: string, description: string]

/** For completion scripts: the values that fit the command line typed so far, or none; never an error. */
export const command = defineCommand({
  operands: {
    kind: { required: true, help: completedValues.join(', ') },
    line: { help: 'the command line so far: its --env and --server apply' }
  },
  options: {},
  examples: [['values deployments "svc logs "', 'the deployments that "svc logs" may mean here']],
  async run({ operands }, context) {
    const kind = completedValues.find(name => name === operands.kind)
    if (kind === undefined) throw usage(operands.kind, `there are no values "${operands.kind}", only ${completedValues.join(', ')}`)
    const signal = AbortSignal.timeout(limitMs)
    const late = new Promise<Value[]>(resolve => signal.addEventListener('abort', () => resolve([])))
    const found = await Promise.race([valuesOf(kind, operands.line ?? '', { ...context, signal }).catch(() => []), late])
    // A shell expands the words that it is offered, and prints what they are.
    const safe = found.filter(([value]) => /^[\w.-]+$/.test(value))
    await context.output.write(safe.map(([value, description]) => `${value}\t${plainText(oneLine(description))}\n`).join(''))
    // A name that is being looked up would keep the process running.
    context.host.exit(exitCodes.success)
    return exitCodes.success
  }
})

interface Asking extends Context {
  signal: AbortSignal
}

async function valuesOf(kind: CompletedValues, line: string, context: Asking): Promise<Value[]> {
  if (kind === 'environments') {
    const names = await listEnvironments(context.cwd)
    return names.map(name => [name ?? plainEnvironment, name === null ? 'svc.config.json' : `svc.config.${name}.json`])
  }
  const quiet = { ...context.output, warn: () => {} }
  const flags = { server: optionOf(line, '--server'), project: optionOf(line, '--project') }
  const request = { flags, env: optionOf(line, '--env') ?? optionOf(line, '-e'), project: 'optional' } as const
  const { config } = await loadConfiguration({ ...context, output: quiet }, request)
  for (const token of [config.adminToken, config.deployToken]) {
    const api = token === null ? null : openQuietly(token, config, context)
    if (api !== null) return kind === 'projects' ? projects(api, context) : deployments(api, config, context)
  }
  return []
}

/** Nobody has confirmed the command yet, so a checkout must not choose who gets a token: it goes to its own server only. */
function openQuietly(token: SourcedToken, { serverUrl }: EffectiveConfig, { env }: Asking): Api | null {
  if (serverUrl === null || !maySend(token, serverUrl.value)) return null
  const isOfCheckout = serverUrl.source === 'project' || serverUrl.source === '.env.local'
  if (token.origin === null && isOfCheckout && token.source !== '.env.local') return null
  return createApi(createClient({ serverUrl: serverUrl.value, token, env }))
}

async function projects(api: Api, { signal }: Asking): Promise<Value[]> {
  const holder = await api.whoami({ signal })
  const found = holder?.project ? [holder.project] : await api.projects({ signal })
  return found.map(({ id, name }) => [id, name])
}

async function deployments(api: Api, { projectId }: EffectiveConfig, { signal }: Asking): Promise<Value[]> {
  const found = await api.deployments({ projectId: projectId?.value, limit: maxDeployments, output: 'none', signal })
  return found.map(({ id, projectName, status, message }) => [id, `${projectName}, ${status}${message === null ? '' : `: ${message}`}`])
}

/** The value of an option in a line that is not complete; without quotes, which ids and addresses do not need. */
function optionOf(line: string, flag: string): string | undefined {
  const words = line.split(/\s+/)
  const at = words.findIndex(word => word === flag || word.startsWith(`${flag}=`))
  const found = words[at]?.startsWith(`${flag}=`) ? words[at]?.slice(flag.length + 1) : words[at + 1]
  return at === -1 || !found || found.startsWith('-') ? undefined : found
}
