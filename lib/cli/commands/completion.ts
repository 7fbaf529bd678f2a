import { oneLine } from '../../base/text.js'
import { listEnvironments, plainEnvironment } from '../../config/client-config.js'
import type { EffectiveConfig, SourcedToken } from '../../config/precedence.js'
import { maySend } from '../../config/token-origin.js'
import { type Api, createApi } from '../client/api.js'
import { createClient } from '../client/client.js'
import { createFleetApi } from '../client/fleet-api.js'
import { loadConfiguration } from '../client/session.js'
import { type CompletedValues, type Context, defineCommand, exitCodes, type Family, usage } from '../command.js'
import { completedValues, renderCompletion, shells } from '../completion.js'
import { labelWords } from '../fleet/node-view.js'
import { plainText } from '../terminal/terminal-text.js'

/** Time limit for the answer: the user waits at the prompt meanwhile. */
const limitMs = 2000
const maxDeployments = 30

/** A value and its description. */
type Value = readonly [value: string, description: string]

/** The commands for shell completion. */
export const commands = {
  completion: defineCommand({
    operands: { shell: { required: true, help: shells.join(', ') } },
    details:
      'bash: add eval "$(svc completion bash)" to ~/.bashrc.\n\n' +
      'zsh: add source <(svc completion zsh) to ~/.zshrc, after compinit.\n\n' +
      'fish: run svc completion fish > ~/.config/fish/completions/svc.fish\n\n' +
      'Completion also offers environments, deployments and projects. It asks the server for them, and offers none\n' +
      'if the server does not answer within two seconds.',
    examples: [['completion bash', 'print the completion script for bash']],
    async run({ operands }, { output, commands }) {
      const shell = shells.find(name => name === operands.shell)
      if (shell === undefined)
        throw usage(operands.shell, `Unknown shell "${operands.shell}": choose one of ${shells.join(', ')}`)
      const shown = commands.filter(({ hidden }) => hidden !== true)
      const rows = await Promise.all(
        shown.map(async ({ name, aliases, summary, load }) => {
          return { name, aliases, summary, command: name === 'help' ? null : await load() }
        })
      )
      await output.write(renderCompletion(shell, rows))
    }
  }),

  values: defineCommand({
    operands: {
      kind: { required: true, help: completedValues.join(', ') },
      line: { help: 'the command line so far; its --env and --server apply' }
    },
    examples: [['values deployments "svc logs "', 'print the deployments that "svc logs" can show']],
    async run({ operands }, context) {
      const kind = completedValues.find(name => name === operands.kind)
      if (kind === undefined)
        throw usage(operands.kind, `Unknown kind "${operands.kind}": choose one of ${completedValues.join(', ')}`)
      const signal = AbortSignal.timeout(limitMs)
      const late = new Promise<Value[]>(resolve => signal.addEventListener('abort', () => resolve([])))
      const found = await Promise.race([
        valuesOf(kind, operands.line ?? '', { ...context, signal }).catch(() => []),
        late
      ])
      // A shell expands the values that it gets and prints the descriptions, so both must be harmless.
      const safe = found.filter(([value]) => /^[\w.-]+$/.test(value))
      await context.output.write(
        safe.map(([value, description]) => `${value}\t${plainText(oneLine(description))}\n`).join('')
      )
      // A pending DNS lookup would keep the process running.
      context.host.exit(exitCodes.success)
    }
  })
} satisfies Family

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
    if (api !== null) return await values[kind](api, config, context)
  }
  return []
}

type Values = (api: Api, config: EffectiveConfig, context: Asking) => Promise<Value[]>

/** Returns the values of each kind that the server knows. */
const values: Readonly<Record<Exclude<CompletedValues, 'environments'>, Values>> = {
  projects: (api, _config, context) => projects(api, context),
  deployments,
  async nodes(api) {
    const found = await createFleetApi(api.client).nodes({})
    return found.map(({ name, labels }) => [name, labelWords(labels)])
  },
  async rollouts(api, { projectId }) {
    const found = await createFleetApi(api.client).rollouts({ projectId: projectId?.value, limit: maxDeployments })
    return found.map(({ id, projectName, state }) => [id, `${projectName}, ${state}`])
  }
}

/**
 * Opens the API without asking, or returns null. Completion runs before the user confirms a command, so the files of a
 * checkout must not choose who receives a token: it goes to its own server only.
 */
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
  return found.map(({ id, projectName, status, message }) => [
    id,
    `${projectName}, ${status}${message === null ? '' : `: ${message}`}`
  ])
}

/** Returns the value of an option in an incomplete line. Ignores quoting, which ids and addresses do not need. */
function optionOf(line: string, flag: string): string | undefined {
  const words = line.split(/\s+/)
  const at = words.findIndex(word => word === flag || word.startsWith(`${flag}=`))
  const found = words[at]?.startsWith(`${flag}=`) ? words[at]?.slice(flag.length + 1) : words[at + 1]
  return at === -1 || !found || found.startsWith('-') ? undefined : found
}
