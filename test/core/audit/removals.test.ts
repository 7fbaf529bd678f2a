import { join } from 'node:path'
import t from 'tap'
import {
  readCheckpoint,
  readNote,
  signNote,
  writeCheckpoint,
  createServerKey
} from '../../../lib/core/audit/signed-note.js'
import {
  appendLeaf,
  entryLine,
  entryText,
  exportExtension,
  type Frontier,
  hashLeaf,
  otherLine,
  rootOf,
  type SealedEntry
} from '../../../lib/core/audit/tree.js'
import type { VerifierOptions } from '../../../lib/core/audit/verifier.js'
import { sha256Base64 } from '../../../lib/base/digests.js'
import { exported, verified } from './export-stage.js'
import { openLog } from './stage.js'

/*
 * Who has the key of the server signs again whatever he changed. He can keep the hashes of all entries, so that earlier
 * checkpoints still fit, and take the text of an entry away. Then an entry has to say why.
 */

const dayMs = 24 * 60 * 60_000
const entries = 30

t.test('entries that were removed with the key of the server', async t => {
  const directory = t.testdir()
  const log = await openLog(directory)
  t.teardown(log.close)
  await log.fill(entries)
  const text = await exported(log)
  const nowMs = log.clock.now()
  const { signers } = await createServerKey(join(directory, 'keys')).signers(null)
  const anchors = [readCheckpoint(readNote(log.keeper.newest()?.note as string)?.text ?? '')].flatMap(a => a ?? [])

  type Part = { leaf: string; entry?: SealedEntry; removed?: number }
  /** Removes the text of entries, adds others, and signs the result. */
  function forge(gone: readonly number[], added: ReadonlyArray<Partial<SealedEntry>>): string {
    const lines = text.trimEnd().split('\n')
    const parts = lines.slice(1, -1).map(line => JSON.parse(line) as Part)
    for (const seq of gone) parts[seq - 1] = { leaf: parts[seq - 1]?.leaf as string, removed: seq }
    for (const given of added) {
      const common = { seq: parts.length + 1, id: `aud_forged${parts.length}`, at: new Date(nowMs).toISOString() }
      const entry = { ...common, action: 'audit.trimmed', actor: 'system', ok: true, ...given } as SealedEntry
      const ordered = JSON.parse(entryText(entry)) as SealedEntry
      parts.push({ leaf: hashLeaf(entryText(ordered)).toString('base64'), entry: ordered })
    }
    let frontier: Frontier = { size: 0, hashes: [] }
    for (const { leaf } of parts) frontier = appendLeaf(frontier, Buffer.from(leaf, 'base64')).frontier
    const origin = anchors[0]?.origin as string
    const body = parts.map(({ leaf, entry, removed }) =>
      entry === undefined ? otherLine({ leaf, removed: removed as number }) : entryLine(leaf, entryText(entry))
    )
    const all = `${lines[0]}\n${body.join('')}`
    const extensions = [exportExtension(sha256Base64(Buffer.from(all)))]
    const checkpoint = { origin, size: parts.length, root: rootOf(frontier), extensions }
    return all + otherLine({ checkpoint: signNote(writeCheckpoint(checkpoint), signers) })
  }

  const options: VerifierOptions = { anchors, keepsFailures: 20_000 }
  const old = { target: '1-7', detail: '7 older than 400 days' }
  const many = { target: '7', detail: '1 summaries of failed attempts' }
  const upTo = (count: number): number[] => Array.from({ length: count }, (_, at) => at + 1)
  const past = { at: new Date(nowMs - 500 * dayMs).toISOString() }
  const future = { at: new Date(nowMs + 500 * dayMs).toISOString() }
  const cases: Array<[what: string, gone: number[], added: Array<Partial<SealedEntry>>, fault: RegExp]> = [
    ['without a word', [7], [], /^Entry 7 is missing/],
    ['as too old, alone', [7], [{ ...old, target: '7', detail: '1 older than 400 days' }], /only the first entries/],
    ['as too old, with its neighbours', [6, 7], [{ ...old, target: '6-7' }], /only the first entries/],
    ['as too old, in several parts', [1, 7], [{ ...old, target: '1,7' }], /only the first entries/],
    ['as too old with all before it, which are still there', [7], [old], /but entry 1 is still there/],
    ['as too old with all before it, of which one is still there', [1, 2, 3, 5, 6, 7], [old], /entry 4 is still there/],
    [
      'as too old while the next one is older still',
      upTo(7),
      [{ ...old, ...future }],
      /the next entry is too old, too/
    ],
    ['by a second statement that says more', upTo(9), [old, { ...old, target: '8-9' }], /only the first entries/],
    ['by a statement without a time', upTo(7), [{ ...old, at: 'once' }], /its time or its number/],
    ['by a statement with too many', upTo(7), [{ ...old, detail: '8 older than 400 days' }], /its time or its number/],
    ['by a statement about itself', upTo(30), [{ ...old, target: '1-31' }], /or entries after it/],
    ['by a statement of another actor', upTo(7), [{ ...old, actor: 'admin' }], /does not write such an entry/],
    ['by a statement without a reason', upTo(7), [{ target: '1-7' }], /not which/],
    ['for another reason', upTo(7), [{ ...old, detail: 'Cleaned up' }], /neither as too old/],
    ['as a summary of failed attempts', [7], [many], /svc keeps 20000/],
    ['as summaries, with a wrong number', [7, 8], [many], /Entry 8 is missing/],
    [
      'as summaries, in another order',
      [3, 7],
      [{ ...many, target: '7,3', detail: '2 summaries of failed attempts' }],
      /order/
    ],
    ['before the statement', [7], [past, old].slice(1).map(given => ({ ...given, ...past })), /entry 1 is still there/]
  ]
  for (const [what, gone, added, fault] of cases) {
    const { faults } = verified(forge(gone, added), options)
    t.match(faults.join('\n'), fault, what)
    t.not(faults.length, 0, what)
  }

  t.match(verified(forge(upTo(7), [old]), options), {
    faults: [],
    removed: 7,
    removedRanges: [{ from: 1, to: 7, by: 31, says: '7 older than 400 days' }]
  })

  await t.test('by an entry that is not JSON', async t => {
    const forged = forge([], [{ detail: 'x' }]).replace(
      '"action":"audit.trimmed","actor"',
      '"action":"audit.trimmed";"actor"'
    )
    const [line] = /\{"seq":31,.*\}(?=\}\n)/.exec(forged) as RegExpExecArray
    const hashed = forged.replace(
      /\{"leaf":"[^"]+","entry":\{"seq":31,/,
      () => `{"leaf":"${hashLeaf(line).toString('base64')}","entry":{"seq":31,`
    )
    t.match(verified(hashed, options).faults, [/./])
  })

  await t.test('as summaries of which enough are newer', async t => {
    const failures = Array.from({ length: 20_000 }, () => ({ action: 'auth.login_failed', failures: 1 }))
    t.match(verified(forge([7], [...failures, many]), options, 1e6), {
      faults: [],
      removedRanges: [{ from: 7, to: 7, by: 20_031 }]
    })
    t.match(verified(forge([7], [...failures.slice(3000), many]), options, 1e6).faults, [/at most 17000 newer ones/])
  })
})
