import { formatBytes } from '../base/shared/api.js'
import { oneLine } from '../base/text.js'
import type { RunResult } from './run-result.js'
import { originWords } from './terminal/deployments.js'

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
