import type { Client } from './client/client.js'
import { appendFile } from 'node:fs/promises'
import { reasonOf, Refusal } from '../base/errors.js'
import type { Deployment, FinalStatus } from '../model/deployment.js'
import type { Provenance } from '../model/provenance.js'
import type { ListedRollout } from '../model/rollout.js'
import type { Context } from './command.js'
import { formatBytes } from '../base/shared/api.js'
import { oneLine } from '../base/text.js'
import { originWords } from './terminal/deployments.js'

/** The result of a deployment, for `--json` and for a CI summary. After a failure it contains all that is known. */
export interface RunResult {
  /** Null if no deployment began, or if its id is unknown. */
  deployId: string | null
  /** `running` if the client stopped watching before the deployment finished. */
  status: FinalStatus | 'running'
  duration: string | null
  /** Address of the deployment's page in the panel. */
  url: string | null
  error: { code: string; message: string } | null
  projectId: string | null
  message: string | null
  provenance: Provenance | null
  /** The record, with the end of its output; null if it cannot be read. */
  deployment: Deployment | null
  /** The rollout of the deployment, if the project is placed on nodes; null: there is none, or it cannot be read. */
  rollout: ListedRollout | null
}

/** The facts that are known before the record of the deployment is read. */
export type Known = Pick<RunResult, 'deployId' | 'projectId' | 'message' | 'provenance' | 'url'>

/** Returns `Known` with every field null. */
export function nothingKnown(): Known {
  return { deployId: null, projectId: null, message: null, provenance: null, url: null }
}

/** Returns the result of a push that failed before its deployment finished. */
export function failedResult(error: unknown, known: Known): RunResult {
  const message = (error instanceof Error ? error.message : String(error)) || 'Interrupted'
  return { ...known, status: 'failed', duration: null, error: { code: codeOf(error), message }, ...nothingRead }
}

/** The records of a deployment that cannot be read. */
const nothingRead = { deployment: null, rollout: null } as const

function codeOf(error: unknown): string {
  if (error instanceof Refusal) return error.code
  if (error instanceof Error && error.name === 'Interrupted') return 'interrupted'
  return String((error as NodeJS.ErrnoException | null)?.code ?? 'internal')
}

/**
 * Returns the address of a deployment's page: the one that the server sent, else one below the address of the API. A server that
 * was reached by its socket has no address.
 */
export function pageOf(client: Pick<Client, 'address'>, deployId: string | null, page: string | null): string | null {
  if (page !== null || deployId === null || !/^https?:/.test(client.address)) return page
  return `${client.address}/deployments/${encodeURIComponent(deployId)}`
}

/**
 * Appends the result to the summary of the CI job, a Markdown file that GitHub, Gitea and Forgejo name in
 * GITHUB_STEP_SUMMARY. Does nothing elsewhere. Warns if the file cannot be written.
 */
export async function appendSummary(
  result: RunResult,
  { env, output }: Pick<Context, 'env' | 'output'>
): Promise<void> {
  const path = env['GITHUB_STEP_SUMMARY'] ?? ''
  if (path === '') return
  try {
    await appendFile(path, summaryOf(result))
  } catch (error) {
    output.warn(`cannot write the summary to GITHUB_STEP_SUMMARY: ${reasonOf(error)}`)
  }
}

/** Renders the result of a deployment as Markdown, for the summary of a CI job. */
export function summaryOf({
  deployId,
  status,
  duration,
  url,
  error,
  deployment,
  projectId,
  message,
  provenance
}: RunResult): string {
  const project = deployment?.projectName ?? projectId ?? 'a project'
  const title =
    status === 'success' ? `✔ Deployed to ${plain(project)}` : `✘ Deployment to ${plain(project)}: ${plain(status)}`
  const rows: Array<[string, string | null]> = [
    ['Deployment', deployId === null ? null : linked(deployId, url)],
    ['Environment', plainOrNull(deployment?.env)],
    ['Message', plainOrNull(deployment?.message ?? message)],
    ['Commit', plainOrNull(originWords(deployment?.provenance ?? provenance))],
    ['Files', deployment?.fileCount == null ? null : String(deployment.fileCount)],
    ['Archive', deployment?.archiveBytes == null ? null : plain(formatBytes(deployment.archiveBytes))],
    ['Duration', plainOrNull(duration)],
    ['Error', plainOrNull(error?.message)]
  ]
  const lines = rows.flatMap(([name, value]) => (value === null ? [] : [`| ${name} | ${value} |`]))
  return `### ${title}\n\n| | |\n|---|---|\n${lines.join('\n')}\n\n`
}

function linked(words: string, url: string | null): string {
  // The address comes from the server or the configuration. Characters that could end it in Markdown are escaped.
  const address = url?.replace(
    /[\s<>()[\]|\\"`]/g,
    character => `%${character.charCodeAt(0).toString(16).padStart(2, '0')}`
  )
  return address === undefined || !/^https?:\/\//.test(address) ? plain(words) : `[${plain(words)}](${address})`
}

function plainOrNull(text: string | null | undefined): string | null {
  return text === null || text === undefined || text === '' ? null : plain(text)
}

/** Escapes text so that Markdown and HTML show it literally: it cannot be a link or a tag, or end a cell. */
function plain(text: string): string {
  return oneLine(text).replace(/[^\p{L}\p{N} .,;/+=%'-]/gu, character => `&#${character.codePointAt(0)};`)
}
