/* `svc files --deep`: verifies the files of a project on the server. */
import type { Client } from './client/client.js'
import { compareLimitMs, ndjson } from './client/runs.js'
import { countOf, grouped, oneLine } from '../base/text.js'
import type { Baseline, FindingState, VerifyEvent } from '../model/plan.js'
import { readNdjson, streamBroken } from './client/streams.js'
import { type Context, exitCodes } from './command.js'
import { withProgress } from './terminal/output.js'
import { withInterrupts } from './terminal/prompt.js'
import { humanDuration } from './terminal/words.js'

/** What to print. */
export interface VerifyView {
  json: boolean
  /** Whether to print the SHA-256 of each file, for `sha256sum -c`. */
  sums: boolean
}

type FileFinding = Omit<Extract<VerifyEvent, { event: 'finding' }>, 'event'>
type Totals = Omit<Extract<VerifyEvent, { event: 'end' }>, 'event'>

const columns = 80
/** Length of the text that is written at a time. */
const batchLength = 64 * 1024

/** Verifies the files of a project, prints what differs, and returns the exit code. */
export async function verifyProject(
  { client, projectId }: { client: Client; projectId: string },
  view: VerifyView,
  context: Context
): Promise<number> {
  const { output } = context
  const startedAtMs = Date.now()
  return await withProgress(
    output.progress('Verifying', files => grouped(files)),
    async bar => {
      const { baseline, findings, totals } = await withInterrupts(context.host, signal =>
        read(eventsOf(client, projectId, { sums: view.sums, signal }), {
          onProgress: bar.update,
          onSums: async text => output.write(text)
        })
      )
      bar.end(`Verified ${countOf(totals.files, 'file')} in ${humanDuration(Date.now() - startedAtMs)}`)
      if (view.json) output.json({ success: true, baseline, ...totals, findings })
      else {
        const print = view.sums ? output.note : output.print
        for (const line of [...findings.flatMap(linesOf), ...summaryOf(baseline, totals)]) print(line)
      }
      return baseline !== 'building' && totals.ok === totals.files && !totals.isOutdated
        ? exitCodes.success
        : exitCodes.failed
    }
  )
}

/** Yields what the server finds when it compares every file of a target with what svc put there. */
async function* eventsOf(
  client: Client,
  id: string,
  { sums, signal }: { sums: boolean; signal: AbortSignal }
): AsyncGenerator<VerifyEvent> {
  const query = { sums: sums ? ('1' as const) : undefined }
  const given = { id, query, accept: ndjson, answerLimitMs: compareLimitMs, signal } as const
  const answer = await client.ask('GET /api/projects/:id/verify', given)
  for await (const event of readNdjson(answer)) yield event as VerifyEvent
}

interface Read {
  baseline: Baseline
  findings: FileFinding[]
  totals: Totals
}

async function read(
  events: AsyncIterable<VerifyEvent>,
  { onProgress, onSums }: { onProgress(done: number, files: number): void; onSums(text: string): Promise<void> }
): Promise<Read> {
  let baseline: Baseline = 'none'
  let sums = ''
  const findings: FileFinding[] = []
  for await (const given of events) {
    const { event, ...values } = given
    switch (given.event) {
      case 'start':
        baseline = given.baseline
        break
      case 'progress':
        onProgress(given.done, given.files)
        break
      case 'finding':
        findings.push(values as FileFinding)
        break
      case 'file':
        sums += sumLine(given.sha256, given.path)
        if (sums.length < batchLength) break
        await onSums(sums)
        sums = ''
        break
      case 'end':
        await onSums(sums)
        return { baseline, findings, totals: values as Totals }
    }
  }
  throw streamBroken()
}

const differences: Record<FindingState, string> = {
  changed: 'other contents',
  missing: 'missing',
  other_type: 'not of the same type',
  mode: 'other permissions'
}

function linesOf({ path, state, since }: FileFinding): string[] {
  const how = `${differences[state]} (from ${since})`
  const line = `  ! ${oneLine(path)}  ${how}`
  return line.length <= columns ? [line] : [`  ! ${oneLine(path)}`, `      ${how}`]
}

function summaryOf(baseline: Baseline, { files, ok, changed, missing, otherType, mode, isOutdated }: Totals): string[] {
  if (baseline === 'none') return ['svc has put no files into the target.']
  if (baseline === 'building') return ['The list of the files that svc owns is being made. Try again in a moment.']
  const parts = [
    [changed, 'with other contents'],
    [missing, 'missing'],
    [otherType, 'of another type'],
    [mode, 'with other permissions']
  ] as const
  const kinds = parts.filter(([count]) => count > 0).map(([count, what]) => `${grouped(count)} ${what}`)
  const all = grouped(files)
  const differing = files - ok
  return [
    differing === 0
      ? `${all} ${files === 1 ? 'file is' : 'files are'} as deployed.`
      : `${grouped(differing)} of ${all} files ${differing === 1 ? 'differs' : 'differ'}: ${kinds.join(', ')}.`,
    ...(isOutdated ? ['A deployment was in progress meanwhile: verify again after it.'] : [])
  ]
}

/**
 * Returns a line that `sha256sum -c` reads. As in GNU coreutils, a name with a backslash or a line break is escaped, and
 * the line begins with a backslash.
 */
export function sumLine(sha256: string, path: string): string {
  // "-" means standard input.
  const name = path === '-' ? './-' : path
  const escaped = name.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
  return `${escaped === name ? '' : '\\'}${sha256}  ${escaped}\n`
}
