import { lstat, mkdir, open, rm } from 'node:fs/promises'
import { makeDirectories } from '../../base/files.js'
import { isAbsolute, join, resolve, win32 } from 'node:path'
import { hasCode, reasonOf, Refusal } from '../../base/errors.js'
import { countOf, oneLine, grouped } from '../../base/text.js'
import type { DriftReport, Baseline, FindingState, VerifyEvent } from '../../model/plan.js'
import type { Client } from '../client/client.js'
import { compareLimitMs, ndjson, runOf } from '../client/runs.js'
import { type AdminOptions, openAdmin, openNamed, openProjectAsAdmin } from '../client/session.js'
import { type Context, defineCommand, exitCodes, type Family, option, toggle, usage } from '../command.js'
import {
  adminDetails,
  adminOptions,
  checkMessage,
  projectDetails,
  tokenWith,
  projectOperand,
  serverOptions,
  sharedOptions
} from '../common-options.js'
import { runAndReport } from '../exact-run.js'
import { driftLines, planExitCodes } from '../plan-view.js'
import { confirmation, withInterrupts } from '../terminal/prompt.js'
import { readNdjson, streamBroken } from '../client/answer.js'
import { withProgress } from '../terminal/output.js'
import { humanDuration } from '../terminal/words.js'

/** Options of `svc files` that belong to one of its ways to work. */
const repairOptions = {
  path: option('path', 'put back only this file; may be given several times', { repeatable: true }),
  'run-scripts': toggle('also run the scripts of the last deployment'),
  message: sharedOptions.message,
  yes: { ...sharedOptions.yes, help: 'do not ask; required without a terminal' }
} as const

/** The search for files to repair reads all of them. */
const repairLimitMs = 60 * 60_000

const fetchDetails =
  '--fetch keeps the paths of the files and replaces no existing file. Links, and files that may contain secrets,\n' +
  `are not downloaded. --fetch needs ${tokenWith('operator')}, or the deploy token.`

/** The commands for the files in targets. */
export const commands = {
  files: defineCommand({
    operands: { project: projectOperand },
    options: {
      deep: toggle('read every file, and compare permissions, too'),
      fetch: option('dir', 'download the edited files into this directory'),
      sums: toggle('with --deep: print what "sha256sum -c" reads'),
      repair: toggle('put back the files that are not as deployed'),
      path: { ...repairOptions.path, help: 'with --repair: put back only this file; repeatable' },
      'run-scripts': { ...repairOptions['run-scripts'], help: 'with --repair: run the scripts of the last deployment' },
      message: { ...sharedOptions.message, help: 'with --repair: message for this deployment, one line' },
      yes: { ...sharedOptions.yes, help: 'with --repair: do not ask; required without a terminal' },
      'exit-code': toggle('exit with 4 if files were edited'),
      ...serverOptions,
      json: sharedOptions.json
    },
    details:
      'Answers whether the files in the target are as svc put them there, and lists those that somebody has edited or\n' +
      'removed since. Files that svc did not put there are not listed. Nothing is changed on the server, except with\n' +
      '--repair.\n\n' +
      'A file counts as unchanged if its size and time are. --deep reads every file, and compares contents, type and\n' +
      'permissions; its exit code is 1 if a file differs. --sums prints the SHA-256 of the deployed files; run\n' +
      '"sha256sum -c" with it in the target.\n\n' +
      `${fetchDetails}\n\n` +
      '--repair puts back what --deep lists. It is a deployment of these files from the archives on the server. Edited\n' +
      `files that it replaces are kept, and "svc rollback --undo" brings them back. It needs ${tokenWith('operator')}.\n\n` +
      projectDetails('viewer'),
    examples: [
      ['files', 'list the files that were edited on the server'],
      ['files shop --deep', 'read every file, and compare permissions, too'],
      ['files --fetch edited', 'download the edited files, to take them into the build'],
      ['files --repair --path index.html --yes', 'put back one file, from a script']
    ],
    async run({ options, operands: { project } }, context) {
      const { deep, fetch, sums, repair, path, json } = options
      const exitCode = options['exit-code']
      const only = (flag: string, isGiven: boolean, needed: 'deep' | 'repair' | null): void => {
        const isRefused = needed === null ? deep || repair : !options[needed]
        if (!isGiven || !isRefused) return
        throw usage(flag, needed === null ? `${flag} excludes --deep and --repair` : `${flag} needs --${needed}`)
      }
      if (deep && repair) throw usage('--deep', '--deep and --repair exclude each other: a repair reads every file')
      only('--fetch', fetch !== undefined, null)
      only('--exit-code', exitCode, null)
      only('--sums', sums, 'deep')
      only('--path', path.length > 0, 'repair')
      only('--run-scripts', options['run-scripts'], 'repair')
      only('--message', options.message !== undefined, 'repair')
      only('--yes', options.yes, 'repair')
      if (sums && json) throw usage('--sums', '--sums cannot be combined with --json')
      if (repair) return await repairFiles(project, options, context)
      if (!deep) return await listEdited(project, { ...options, exitCode }, context)
      return await verifyProject(await openNamed(context, { ...options, project }), { sums, json }, context)
    }
  }),

  drift: defineCommand({
    operands: { projectId: projectOperand },
    options: {
      full: toggle('read every file, even if its size and time are unchanged'),
      fetch: option('dir', 'download the edited files into this directory'),
      json: sharedOptions.json,
      'exit-code': toggle('exit with 4 if files were edited'),
      ...serverOptions
    },
    details:
      'Lists the files that svc put into the target and that somebody has edited or removed since. Files that svc did\n' +
      'not put there are not listed. Nothing is changed on the server.\n\n' +
      `${fetchDetails}\n\n${projectDetails('viewer')}`,
    examples: [
      ['drift', 'list the files that were edited on the server'],
      ['drift --fetch edited', 'download the edited files, to take them into the build'],
      ['drift --exit-code', 'find out in a script whether there are any']
    ],
    run: ({ options, operands: { projectId } }, context) =>
      listEdited(projectId, { ...options, exitCode: options['exit-code'] }, context)
  }),

  repair: defineCommand({
    operands: { projectId: projectOperand },
    options: {
      ...repairOptions,
      ...adminOptions,
      json: toggle('print the result as JSON; the deployment output goes to standard error')
    },
    details:
      'Puts back the files that "svc files --deep" lists: those that svc put into the target and that were edited,\n' +
      'removed or given other permissions since. It is a deployment of these files from the archives on the server.\n' +
      'Files that svc did not put there stay. Edited files that it replaces are kept, and "svc rollback --undo" brings\n' +
      `them back.\n\n${adminDetails('operator')}`,
    examples: [
      ['repair', 'put back every file that is not as deployed'],
      ['repair shop --path index.html --yes', 'put back one file, from a script']
    ],
    run: ({ options, operands: { projectId } }, context) => repairFiles(projectId, options, context)
  }),

  'target forget': defineCommand({
    operands: {
      deployId: { required: true, complete: 'deployments', help: 'id of the deployment; "svc doctor" shows it' }
    },
    options: {
      yes: { ...sharedOptions.yes, help: 'do not ask; required without a terminal' },
      json: sharedOptions.json,
      ...adminOptions
    },
    details: `A deployment was interrupted, and its target is not there any more: its disk is missing, or it was moved. svc waits
for it, and finishes or undoes the change when it is back. Use this command if it never comes back. Refused while the
target is there.\n\n${adminDetails('admin')}`,
    examples: [['target forget dep_abcdefghijklmnop', 'give the target up after confirmation']],
    async run({ options, operands: { deployId } }, context) {
      const isSure = confirmation(context, { yes: options.yes, what: 'Giving up a target' })
      const { client } = await openAdmin(context, options)
      const question = `Give up the target of ${deployId}? If it comes back, half of a change may stay in it.`
      if (!(await isSure(question))) return exitCodes.failed
      const { given } = await client.call('DELETE /api/unfinished-targets/:deployId', { deployId })
      context.output.result(options.json, given, `Gave up ${given.target ?? 'the target'} of ${deployId}`)
      return exitCodes.success
    }
  })
} satisfies Family

/** Lists the files that were edited on the server, and downloads them if asked. Returns the exit code. */
async function listEdited(
  project: string | undefined,
  options: AdminOptions & { full?: boolean; fetch: string | undefined; json: boolean; exitCode: boolean },
  context: Context
): Promise<number> {
  const { full = false, fetch, json, exitCode } = options
  const { client, projectId } = await openNamed(context, { ...options, project })
  const report = await withInterrupts(context.host, signal => {
    const query = { full: full ? ('1' as const) : undefined }
    return client.call('GET /api/projects/:id/drift', { id: projectId, query, answerLimitMs: compareLimitMs, signal })
  })
  context.output.result(json, report, () => linesOf(report))
  if (report.problem !== null) return exitCodes.failed
  if (fetch !== undefined && !(await fetchEdited(report, { client, projectId, to: fetch }, context)))
    return exitCodes.failed
  return exitCode && report.count > 0 ? planExitCodes.drift : exitCodes.success
}

/** Puts back files that are not as deployed. Returns the exit code. */
async function repairFiles(
  project: string | undefined,
  options: AdminOptions & {
    path: string[]
    'run-scripts': boolean
    message: string | undefined
    yes: boolean
    json: boolean
  },
  context: Context
): Promise<number> {
  const { env, server, token, message, json } = options
  checkMessage(message)
  const isSure = confirmation(context, { yes: options.yes, what: 'A repair', done: 'repaired' })
  const given = { env, server, project, token }
  const { client, projectId } = await openNamed(context, given, openProjectAsAdmin)
  const what = options.path.length === 0 ? 'every file that is not as deployed' : namesOf(options.path)
  if (!(await isSure(`Put back ${what} of ${projectId}`))) return exitCodes.failed
  const { path: paths, 'run-scripts': runScripts } = options
  const body = { message, ...(paths.length > 0 && { paths }), ...(runScripts && { runScripts }) }
  // The server reads the files before it answers.
  const wish = { id: projectId, body, accept: ndjson, answerLimitMs: repairLimitMs } as const
  const repair = {
    start: async (signal: AbortSignal) =>
      runOf(client, await client.ask('POST /api/projects/:id/repair', { ...wish, signal })),
    noun: 'repair',
    done: `repaired ${projectId}`,
    projectId,
    provenance: null,
    message,
    json,
    given
  }
  try {
    return await runAndReport(client, repair, context)
  } catch (error) {
    if (!(error instanceof Refusal) || error.code !== 'nothing_to_repair') throw error
    context.output.result(json, { status: 'nothing_to_repair', projectId }, `${oneLine(error.message)}.`)
    return exitCodes.success
  }
}

/** Downloads the edited files. Returns whether all of them were downloaded. */
async function fetchEdited(
  { count, files }: DriftReport,
  { client, projectId, to }: { client: Client; projectId: string; to: string },
  { host, cwd, output }: Context
): Promise<boolean> {
  const paths = files.filter(({ found }) => found !== null).map(({ path }) => path)
  const directory = resolve(cwd, to)
  const left = await withInterrupts(host, signal => {
    const asked = { id: projectId, accept: 'application/octet-stream', signal } as const
    const open = (path: string): Promise<AsyncIterable<Buffer>> =>
      client.ask('GET /api/projects/:id/drift/file', { ...asked, query: { path } })
    return fetchFiles({ directory, paths, open, signal })
  })
  for (const { path, reason } of left) output.warn(`"${oneLine(path)}" was not downloaded: ${oneLine(reason)}`)
  output.note(`${countOf(paths.length - left.length, 'file')} downloaded to ${directory}`)
  if (count > files.length) output.warn(`${count - files.length} more edited files are not listed. Fetch again later`)
  return left.length === 0 && count === files.length
}

function linesOf({ baseline, partial, problem, count, files }: DriftReport): string[] {
  if (problem !== null) return [`The target cannot be compared: ${oneLine(problem)}`]
  if (baseline === 'none') return ['svc has put no files into the target.']
  if (baseline === 'building') return ['The list of the files that svc owns is being made. Try again in a moment.']
  const lines = files.flatMap(file => driftLines({ ...file, overwritten: null }))
  const more = count - files.length
  return [
    ...lines,
    ...(more > 0 ? [`  … and ${more} more`] : []),
    count === 0 ? 'No file was edited on the server.' : `${countOf(count, 'file')} edited or removed on the server.`,
    ...(partial ? ['The comparison took too long: the list is incomplete.'] : [])
  ]
}

const maxNamed = 3

function namesOf(paths: readonly string[]): string {
  if (paths.length > maxNamed) return countOf(paths.length, 'file')
  return paths.map(path => `"${oneLine(path)}"`).join(', ')
}

/*
 * Downloads edited files of a target into a local directory (`svc files --fetch`). The paths come from the server, so
 * each is checked, no link is followed, and no existing file is replaced.
 */

/** What to download. */
export interface Fetching {
  directory: string
  paths: readonly string[]
  /** Returns the contents of a file. */
  open(path: string): Promise<AsyncIterable<Buffer>>
  signal: AbortSignal
}

/** A file that was not downloaded. */
interface NotFetched {
  path: string
  reason: string
}

/** Downloads the files one after the other, and returns those that were not downloaded. */
export async function fetchFiles({ directory, paths, open: openRemote, signal }: Fetching): Promise<NotFetched[]> {
  await makeDirectories(directory)
  const left: NotFetched[] = []
  for (const path of paths) {
    try {
      const place = await makePlace(directory, path)
      await save(place, () => openRemote(path))
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof Refusal || error instanceof UnsafePath) left.push({ path, reason: error.message })
      else if (hasCode(error, 'EEXIST')) left.push({ path, reason: 'It exists already' })
      else if ((error as NodeJS.ErrnoException).code === undefined) throw error
      else left.push({ path, reason: reasonOf(error) })
    }
  }
  return left
}

/** Makes the directories above a path, and returns its place. Throws `UnsafePath` for one that leads out of the directory. */
async function makePlace(directory: string, path: string): Promise<string> {
  const names = path.split('/')
  const isPlain = (name: string): boolean => name !== '' && name !== '.' && name !== '..' && !name.includes('\0')
  const isForeign = process.platform === 'win32' && (win32.isAbsolute(path) || /[\\:]/.test(path))
  if (isAbsolute(path) || isForeign || !names.every(isPlain))
    throw new UnsafePath('The path leads out of the directory')
  let at = directory
  for (const name of names.slice(0, -1)) {
    at = join(at, name)
    await mkdir(at).catch(error => {
      if (!hasCode(error, 'EEXIST')) throw error
    })
    if (!(await lstat(at)).isDirectory()) throw new UnsafePath(`"${at}" is not a directory`)
  }
  return join(at, names.at(-1) as string)
}

class UnsafePath extends Error {}

/** Writes a new file. A file that is not complete is removed. */
async function save(place: string, open_: () => Promise<AsyncIterable<Buffer>>): Promise<void> {
  const file = await open(place, 'wx')
  try {
    for await (const chunk of await open_()) await file.write(chunk)
    await file.close()
  } catch (error) {
    await file.close().catch(() => {})
    await rm(place, { force: true })
    throw error
  }
}

/* `svc files --deep`: verifies the files of a project on the server. */

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
        for (const line of [...findings.flatMap(linesOfFinding), ...summaryOf(baseline, totals)]) print(line)
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

function linesOfFinding({ path, state, since }: FileFinding): string[] {
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
