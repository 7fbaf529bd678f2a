import { mkdtemp, open, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { throughPart } from '../../base/files.js'
import { keptFailures, unsignedVersion } from '../../core/audit/tree.js'
import type { RemovedRange } from '../../core/audit/removals.js'
import {
  type Checkpoint,
  readCheckpoint,
  readNote,
  readVerifierKey,
  type Verifier
} from '../../core/audit/signed-note.js'
import { ExportVerifier, type Verdict, type VerifierOptions } from '../../core/audit/verifier.js'
import { reasonOf, Refusal } from '../../base/errors.js'
import { countOf } from '../../base/text.js'
import { locateHome } from '../../base/config/home.js'
import type { AuditCheckpoint, AuditEntry } from '../../model/audit.js'
import { actorText, formatBytes } from '../../base/shared/api.js'
import { detailLine } from '../../base/shared/audit.js'
import {
  type ReportProof,
  csvOf,
  htmlOf,
  makeReport,
  proofOf,
  csvLine,
  csvCells,
  csvHeader,
  entriesOf,
  periodOf,
  projectIdFor
} from '../audit-report.js'
import type { Client } from '../client/client.js'
import { noProject, projectNamesOf, whoami } from '../client/named-project.js'
import { findNamedToken } from '../named-tokens.js'
import { explain } from '../client/files.js'
import { openAdmin } from '../client/session.js'
import { type Context, defineCommand, exitCodes, type Family, number, option, toggle, usage } from '../command.js'
import { adminDetails, adminOptions, sharedOptions } from '../common-options.js'
import { type Output, withProgress } from '../terminal/output.js'
import { stampedName } from '../terminal/words.js'
import { withInterrupts } from '../terminal/prompt.js'
import { requireDatabase, withLocalApi } from '../client/opened.js'

const maxLimit = 500

/** Time limit for the beginning of the answer: the server may have to sign a checkpoint first. */
const answerLimitMs = 5 * 60_000

const readBytes = 1024 * 1024

/** The commands for the audit log and its key. */
export const commands = {
  'audit list': defineCommand({
    options: {
      action: option('noun.verb', 'only entries with this action, for example project.update'),
      project: option('name', 'only entries of this project (id or name)', { complete: 'projects' }),
      by: option('name', 'only entries of this named token (id or name)'),
      since: option('time', 'only entries since 30d, 12:04 or 2026-11-21T12:04'),
      until: option('time', 'only entries before this time'),
      before: option('id', 'only entries older than this one'),
      limit: number('number', 'maximum number of entries (default 50; with --csv: all)', {
        minimum: 1,
        maximum: maxLimit
      }),
      csv: toggle('print the entries as CSV, without a limit'),
      ...adminOptions,
      json: toggle('print the entries as JSON')
    },
    details: `The newest entry comes first. A named token lists its own entries; an operator also those of its projects.\n\n${adminDetails('viewer')}`,
    examples: [
      ['audit list', 'list the newest entries'],
      ['audit list --by ci-shop --json', 'list what a named token did, for a script'],
      ['audit list --since 30d --project shop --csv > shop.csv', 'list what was done with a project in 30 days']
    ],
    async run({ options }, context) {
      const { action, project, by, before, limit, json, csv } = options
      if (csv && json) throw usage('--csv', 'Give --csv or --json, not both')
      const period = periodOf(options, Date.now())
      const { client } = await openAdmin(context, options)
      const projectId = await projectIdFor(client, project)
      const names = await projectNamesOf(client)
      const { name: tokenName, refusal } = await tokenNameOf(client, by)
      const entries = entriesOf(
        client,
        { action, projectId, tokenName, before, ...period },
        limit ?? (csv ? Infinity : 50)
      )
      const refuseUnknown = (count: number): void => {
        if (count === 0 && refusal !== null) throw refusal
        if (count === 0 && project !== undefined && projectId !== undefined && !names.has(projectId))
          throw noProject(
            project,
            [...names.values()].map(name => ({ name }))
          )
      }
      if (csv) return printCsv(context.output, { entries, names, refuseUnknown })
      const items: AuditEntry[] = []
      for await (const entry of entries) items.push(entry)
      refuseUnknown(items.length)
      const nameOf = (id: string): string | undefined => names.get(id)
      context.output.list(json, items, {
        empty: 'No entries.',
        columns: [
          { header: 'NUMBER', cell: ({ seq }) => String(seq ?? '-'), drop: 'first' },
          { header: 'TIME', cell: ({ at }) => `${at.slice(0, 19).replace('T', ' ')}Z` },
          { header: 'ACTOR', cell: ({ actor }) => actorText(actor, nameOf), shrinkTo: 8 },
          { header: 'ADDRESS', cell: ({ ip }) => ip ?? '-', drop: 'first' },
          { header: 'ACTION', cell: ({ action, ok }) => (ok ? action : `${action} (failed)`), shrinkTo: 16 },
          { header: 'PROJECT', cell: ({ projectId: id }) => (id === null ? '-' : (names.get(id) ?? id)), shrinkTo: 8 },
          {
            header: 'TARGET',
            cell: ({ target, projectId: id }) => (target === id ? '-' : (target ?? '-')),
            drop: 'first'
          },
          { header: 'DETAIL', cell: ({ detail }) => detailLine(detail ?? ''), shrinkTo: 10, drop: 'last' }
        ]
      })
    }
  }),

  'audit report': defineCommand({
    options: {
      since: option('time', 'begin of the period: 30d or 2026-11-01', { default: '30d' }),
      until: option('time', 'end of the period; default: now'),
      format: option('format', 'html or csv', { choices: ['html', 'csv'], default: 'html' }),
      out: option('file', 'file to write (default ./svc-audit-report-<date>.<format>)'),
      ...adminOptions,
      json: sharedOptions.json
    },
    details:
      'The report lists the deployments of the period with who made them, their commits and results; approvals; changes of\n' +
      'rights, settings and projects; and refused sign-ins. At the end it says how the log proves itself: the log is exported\n' +
      `and verified at that moment. The HTML is one file without scripts that prints well.\n\n${adminDetails('operator')}`,
    examples: [
      ['audit report', 'write the report of the last 30 days'],
      ['audit report --since 2026-10-01 --until 2026-11-01 --format csv --out october.csv', 'write that of a month']
    ],
    async run({ options }, context) {
      const { format, json } = options
      const nowMs = Date.now()
      const { since = '', until = new Date(nowMs).toISOString() } = periodOf(options, nowMs)
      const path = resolve(context.cwd, options.out ?? `svc-audit-report-${until.slice(0, 10)}.${format}`)
      const { client } = await openAdmin(context, options)
      const holder = await whoami(client)
      const head = {
        server: client.address,
        since,
        until,
        by: holder?.name ?? 'unknown',
        at: new Date(nowMs).toISOString()
      }
      const proof = await provenNow(context, client)
      const report = await makeReport({ client, head, names: await projectNamesOf(client), proof })
      await writePieces(path, format === 'html' ? htmlOf(report) : csvOf(report))
      const isGood = proof.verdict === null || proof.verdict.faults.length === 0
      const { deployments } = report.rows
      context.output.result(json, { path, ok: isGood, entries: report.entries, deployments: deployments.length }, path)
      for (const fault of proof.verdict?.faults ?? []) context.output.error(fault)
      return isGood ? exitCodes.success : exitCodes.failed
    }
  }),

  'audit export': defineCommand({
    options: {
      out: option('file', 'file to write (default ./svc-audit-<timestamp>.jsonl)'),
      from: number('number', 'number of the first entry; default: 1', { minimum: 1 }),
      to: number('number', 'number of the last entry; default: the newest', { minimum: 1 }),
      ...adminOptions,
      json: sharedOptions.json
    },
    details:
      'The file has a JSON line for each entry, and what proves that the entries are those of the log: the hashes of\n' +
      'removed and omitted entries, and a checkpoint that the server signed. It is verified at once; "svc audit verify"\n' +
      `verifies it again anywhere, without a server. Only you can read the file.\n\n${adminDetails('operator')}`,
    examples: [
      ['audit export', 'export the whole log to a file in the current directory'],
      ['audit export --from 4000 --out last.jsonl', 'export the entries from number 4000 on']
    ],
    async run({ options }, context) {
      const { from, to, json } = options
      const path = resolve(context.cwd, options.out ?? stampedName('svc-audit', 'jsonl'))
      const { client } = await openAdmin(context, options)
      const query = { from, to }
      const { output } = context
      return await withProgress(output.progress('Exporting'), async bar => {
        const { bytes, verdict } = await withInterrupts(context.host, signal =>
          download(client, { query, path, signal, onBytes: count => bar.update(count, count) })
        )
        const isGood = verdict.faults.length === 0
        bar.end(`Exported ${auditSentence(verdict)} (${formatBytes(bytes)})`)
        for (const line of missingSentences(verdict).removed) output.note(line)
        for (const fault of verdict.faults) output.error(fault)
        output.result(json, { path, ok: isGood, ...verdict }, path)
        return isGood ? exitCodes.success : exitCodes.failed
      })
    }
  }),

  'audit verify': defineCommand({
    operands: { file: { required: true, help: 'the export to verify' } },
    options: {
      anchor: option('note', 'file with checkpoints from elsewhere; the export must begin with their entries', {
        repeatable: true
      }),
      key: option('file', 'file with the key of the server: a copy of keys/server.pub'),
      'allow-trimmed': toggle('accept that old entries were removed, as the log says; their age cannot be verified'),
      'allow-unsigned': toggle(
        'accept that an export of an older svc lacks entries; nothing signs which the server left out'
      ),
      json: sharedOptions.json
    },
    details:
      'Without a server: the entries must give their hashes, the hashes the root of the checkpoint at the end, and the\n' +
      'key of the server must have signed it. An anchor is a checkpoint that was kept elsewhere: by a command in\n' +
      '~/.svc/witness, in a notification, or in the file of the setting checkpoint_file. Without --key and --anchor, the\n' +
      'export is only compared with itself, and the owner of the server can sign a new one.\n\n' +
      'Removed entries are printed. Nothing proves how old they were: who has the key of the server could have removed\n' +
      'them. Therefore the exit code is 1 without --allow-trimmed. It is 1, too, if anything is wrong.',
    examples: [
      ['audit verify audit.jsonl --key server.pub', 'verify an export and who signed it'],
      ['audit verify audit.jsonl --anchor ~/.svc/witness/1c2d3e4f.note', 'also verify that the past was not rewritten']
    ],
    async run({ options, operands }, { cwd, output }) {
      const key = options.key === undefined ? null : await readKey(resolve(cwd, options.key))
      const found = await Promise.all(options.anchor.map(path => readAnchors(resolve(cwd, path), key)))
      const anchors = found.flat()
      const allowsUnsigned = options['allow-unsigned']
      const given = { key, anchors, keepsFailures: keptFailures, allowsUnsigned }
      const verdict = await verify(resolve(cwd, operands.file), given)
      const faults = [...verdict.faults, ...faultsOfTrims(verdict, options['allow-trimmed'])]
      const isGood = faults.length === 0
      const missing = missingSentences(verdict)
      if (options.json) output.json({ ok: isGood, ...verdict, faults })
      else {
        if (isGood) output.print(goodSentence(verdict))
        for (const line of [...missing.removed, ...missing.omitted]) output.print(line)
        for (const fault of faults) output.error(fault)
      }
      if (verdict.version === unsignedVersion)
        output.note('An older svc wrote this export: its signature does not cover which entries were left out.')
      if (isGood && key === null)
        output.note(
          'The key was not compared: give --key with a copy of keys/server.pub that did not come with the export.'
        )
      return isGood ? exitCodes.success : exitCodes.failed
    }
  }),

  'keys rotate': defineCommand({
    options: { json: sharedOptions.json },
    details:
      'Works on the data directory of this machine (SVC_HOME), whether the server is running or not. An entry of the\n' +
      'audit log contains the new key, signed by both. The old key signs further checkpoints, too, so that everybody who\n' +
      'knows it learns the new one. It is removed with the next rotation.',
    examples: [['keys rotate', 'replace the key, for example after a backup was lost']],
    async run({ options }, context) {
      const { env, cwd, output } = context
      const home = locateHome(env, cwd)
      await requireDatabase(home, 'rotate')
      const { before, after } = await withLocalApi(context, home, ({ client }) => client.call('POST /api/audit/key'))
      output.result(options.json, { before, after }, after)
      output.note(
        `The new key is in ${join(home.keys, 'server.ed25519')}. Copy ${join(home.keys, 'server.pub')} again.`
      )
    }
  })
} satisfies Family

/**
 * Returns the name of a token that is named by its id or name, and how to refuse it if there is none. The log may still have
 * entries of one that is gone, and only an admin can list tokens.
 */
async function tokenNameOf(
  client: Client,
  word: string | undefined
): Promise<{ name: string | undefined; refusal: Refusal | null }> {
  if (word === undefined) return { name: undefined, refusal: null }
  try {
    return { name: (await findNamedToken(client, word)).name, refusal: null }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return { name: word, refusal: error.code === 'no_such_token' ? error : null }
  }
}

interface Printed {
  entries: AsyncIterable<AuditEntry>
  names: ReadonlyMap<string, string>
  refuseUnknown(count: number): void
}

async function printCsv(output: Output, { entries, names, refuseUnknown }: Printed): Promise<void> {
  let count = 0
  for await (const entry of entries) {
    if (count++ === 0) await output.write(csvLine(csvHeader))
    await output.write(csvLine(csvCells(entry, names)))
  }
  refuseUnknown(count)
  if (count === 0) await output.write(csvLine(csvHeader))
}

interface Download {
  query: { from?: number | undefined; to?: number | undefined }
  path: string
  signal: AbortSignal
  onBytes(count: number): void
}

/** Writes the export to a temporary file beside `path`, verifies it meanwhile, and renames it once it is complete. */
async function download(
  client: Client,
  { query, path, signal, onBytes }: Download
): Promise<{ bytes: number; verdict: Verdict }> {
  const verifier = new ExportVerifier({ keepsFailures: keptFailures })
  let bytes = 0
  const given = { query, accept: 'application/x-ndjson', answerLimitMs, signal } as const
  const answer = await client.ask('GET /api/audit/export', given)
  try {
    await throughPart(path, async part => {
      const file = await open(part, 'w')
      try {
        for await (const chunk of answer as AsyncIterable<Buffer>) {
          await file.writeFile(chunk)
          verifier.push(chunk)
          onBytes((bytes += chunk.length))
        }
        await file.sync()
      } finally {
        await file.close()
      }
    })
    return { bytes, verdict: verifier.end() }
  } catch (error) {
    answer.destroy()
    signal.throwIfAborted()
    throw explain(error, { what: 'export', nothing: 'Nothing was exported' })
  }
}

/** Exports the log to a temporary file and verifies it. There is no verdict if the token cannot export it. */
async function provenNow(context: Context, client: Client): Promise<ReportProof> {
  const checkpoint = (): Promise<AuditCheckpoint> => client.call('GET /api/audit/checkpoint')
  const directory = await mkdtemp(join(tmpdir(), 'svc-audit-'))
  try {
    const { verdict } = await withInterrupts(context.host, signal =>
      download(client, { query: {}, path: join(directory, 'log.jsonl'), signal, onBytes: () => {} })
    )
    return proofOf(await checkpoint(), verdict)
  } catch (error) {
    if (error instanceof Refusal && error.kind === 'forbidden') return proofOf(await checkpoint(), null)
    throw error
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** Writes a file that only its owner can read, and renames it once it is complete. */
async function writePieces(path: string, pieces: Iterable<string>): Promise<void> {
  try {
    await throughPart(path, part => writeFile(part, pieces))
  } catch (error) {
    throw new Refusal('invalid', 'not_writable', `Cannot write "${path}": ${reasonOf(error)}`, { cause: error })
  }
}

/** Returns that everything is right, with the anchors that prove it. */
function goodSentence(verdict: Verdict): string {
  const prefixes = verdict.anchors.map(size => `; the anchor of ${size} entries is a prefix`).join('')
  const keyId = readVerifierKey(verdict.key ?? '')?.keyId ?? ''
  return `${auditSentence(verdict)}: the root matches the checkpoint of ${verdict.size} entries, signed with the key ${keyId}${prefixes}`
}

/** Returns why removed entries are not accepted. */
function faultsOfTrims({ removed, removedRanges }: Verdict, isAllowed: boolean): string[] {
  if (removed === 0) return []
  if (!isAllowed)
    return [
      `${countOf(removed, 'entry was', 'entries were')} removed before, and nothing proves how old they were: give --allow-trimmed if you expect that, or compare with an earlier export`
    ]
  const unnamed = removedRanges.find(({ by }) => by === null)
  if (unnamed === undefined) return []
  return [`Entry ${unnamed.from} was removed, and no exported entry says so: verify an export up to the newest entry`]
}

async function verify(path: string, options: VerifierOptions): Promise<Verdict> {
  const verifier = new ExportVerifier(options)
  const file = await open(path).catch((error: unknown) => {
    throw unreadable(path, error)
  })
  try {
    for (;;) {
      const { bytesRead, buffer } = await file.read({ buffer: Buffer.allocUnsafe(readBytes) })
      if (bytesRead === 0) return verifier.end()
      verifier.push(buffer.subarray(0, bytesRead))
    }
  } catch (error) {
    throw unreadable(path, error)
  } finally {
    await file.close()
  }
}

async function readKey(path: string): Promise<Verifier> {
  const key = readVerifierKey(await readText(path))
  if (key !== null) return key
  throw new Refusal('invalid', 'not_a_key', `Cannot use "${path}": it is not a key like keys/server.pub`)
}

/** Reads the notes of a file, which may contain several, and verifies their signatures if there is a key. */
async function readAnchors(path: string, key: Verifier | null): Promise<Checkpoint[]> {
  const text = await readText(path)
  // After a signature line, a line that is not one begins the next note.
  const notes = text.split(/(?<=^— .*\n)\n*(?!—)/mu).filter(part => part.trim() !== '')
  return notes.map(part => {
    const note = readNote(part)
    const checkpoint = note === null ? null : readCheckpoint(note.text)
    if (note === null || checkpoint === null) throw notAnAnchor(path, 'it is not a signed checkpoint')
    if (key !== null && !key.verifies(note)) throw notAnAnchor(path, 'the given key did not sign it')
    return checkpoint
  })
}

function notAnAnchor(path: string, why: string): Refusal {
  return new Refusal('invalid', 'not_an_anchor', `Cannot use the anchor "${path}": ${why}`)
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    throw unreadable(path, error)
  }
}

function unreadable(path: string, error: unknown): unknown {
  if (error instanceof Refusal) return error
  return new Refusal('invalid', 'not_readable', `Cannot read "${path}": ${reasonOf(error)}`, { cause: error })
}

/** Returns how many entries an export contains, and how many of them only as hashes: "12 entries, 3 removed before". */
export function auditSentence({ entries, removed, omitted }: Pick<Verdict, 'entries' | 'removed' | 'omitted'>): string {
  const parts = [
    countOf(entries, 'entry', 'entries'),
    removed === 0 ? '' : `${removed} removed before`,
    omitted === 0 ? '' : `${omitted} not exported`
  ]
  return parts.filter(Boolean).join(', ')
}

/** Returns which entries the export has only as hashes, a line for each entry of the log that says why. */
function missingSentences({ removedRanges, omittedRanges }: Pick<Verdict, 'removedRanges' | 'omittedRanges'>): {
  removed: string[]
  omitted: string[]
} {
  const byEntry = new Map<number | null, RemovedRange[]>()
  for (const range of removedRanges) byEntry.set(range.by, [...(byEntry.get(range.by) ?? []), range])
  return {
    removed: [...byEntry.values()].map(ranges => {
      const { by, at, says } = ranges[0] as RemovedRange
      const why = by === null ? 'no exported entry says so' : `entry ${by} of ${at} says "${says}"`
      return `Removed: ${placeOf(ranges.map(({ from, to }) => [from, to]))} (${why})`
    }),
    omitted: omittedRanges.length === 0 ? [] : [`Not exported: ${placeOf(omittedRanges)}`]
  }
}

function placeOf(ranges: ReadonlyArray<[from: number, to: number]>): string {
  const [from, to] = [ranges[0]?.[0] ?? 0, ranges.at(-1)?.[1] ?? 0]
  if (from === to) return `entry ${from}`
  if (ranges.length === 1) return `entries ${from} to ${to}`
  const count = ranges.reduce((sum, [a, b]) => sum + b - a + 1, 0)
  return `${count} of the entries ${from} to ${to}`
}
