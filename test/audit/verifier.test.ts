import t from 'tap'
import { readCheckpoint } from '../../lib/audit/checkpoint-text.js'
import type { Checkpoint } from '../../lib/audit/checkpoint-text.js'
import { readNote, readVerifierKey } from '../../lib/audit/signed-note.js'
import type { SignedNote } from '../../lib/audit/signed-note.js'
import { repetitions } from '../support/thorough.js'
import { createRandom } from '../support/random.js'
import { exported, verified } from './export-stage.js'
import { openLog } from './stage.js'
import type { Log } from './stage.js'
import { tampered } from './tampering.js'

const dayMs = 24 * 60 * 60_000

async function anchorOf(log: Log): Promise<Checkpoint> {
  const note = (await log.keeper.current())?.note as string
  return readCheckpoint((readNote(note) as SignedNote).text) as Checkpoint
}

/** A log with a past: entries that were removed, a restart, and several checkpoints. */
async function aLog(directory: string): Promise<{ log: Log; anchors: Checkpoint[] }> {
  const log = await openLog(directory, { keepDays: 10 })
  const anchors: Checkpoint[] = []
  for (const count of [100, 255, 256, 30]) {
    await log.fill(count)
    anchors.push(await anchorOf(log))
  }
  log.clock.advance(20 * dayMs)
  await log.fill(40)
  return { log, anchors }
}

t.test('an untouched export', async t => {
  const { log, anchors } = await aLog(t.testdir())
  t.teardown(log.close)
  const text = await exported(log)
  const verdict = verified(text, { anchors })
  t.match(verdict, { faults: [], size: 682, entries: 41, removed: 641, omitted: 0, anchors: [100, 355, 611, 641] })
  for (const pieceBytes of [1, 7, 100_000]) t.same(verified(text, { anchors }, pieceBytes), verdict)

  await t.test('is verified with the key of the server', async t => {
    const key = readVerifierKey(verdict.key ?? '')
    t.same(verified(text, { key }).faults, [])
    const other = await openLog(t.testdir())
    t.teardown(other.close)
    await other.fill(1)
    const wrong = readVerifierKey((await other.keeper.current())?.verifierKey ?? '')
    t.match(verified(text, { key: wrong }).faults, [/another key/])
    t.match(verified(text, { anchors: [await anchorOf(other)] }).faults, [/another log/])
  })

  await t.test('may be a part of the log', async t => {
    const parts: Array<[range: { from?: number; to?: number }, uncompared: RegExp[]]> = [
      [{ from: 650, to: 660 }, [/^The anchor of 100 /, /^The anchor of 355 /]],
      [{ from: 660 }, [/^The anchor of 100 /, /^The anchor of 355 /]],
      [{ to: 650 }, []],
      [{ to: 1 }, [/^The anchor of 355 /]]
    ]
    for (const [range, faults] of parts) {
      const part = verified(await exported(log, range), { anchors })
      t.match(part, { faults, size: 682 }, JSON.stringify(range))
      t.equal(part.faults.length, faults.length)
      t.equal(part.entries + part.removed + part.omitted, 682)
    }
  })
})

t.test('finds what happened to a log', async t => {
  const { log, anchors } = await aLog(t.testdir())
  t.teardown(log.close)
  await exported(log)
  const change = (sql: string) => log.store.write(tx => tx.run(sql))

  await t.test('a changed entry', async t => {
    await change("UPDATE audit SET actor = 'nobody' WHERE seq = 660")
    t.match(verified(await exported(log)).faults, [/^Entry 660 was changed/])
    await change("UPDATE audit SET actor = 'admin' WHERE seq = 660")
    t.same(verified(await exported(log)).faults, [])
  })

  await t.test('an entry that was removed without a trace', async t => {
    await change('DELETE FROM audit WHERE seq = 670')
    t.match(verified(await exported(log)).faults, [/^Entry 670 is missing/])
  })

  await t.test('a shorter log than an anchor', async t => {
    const young = await openLog(t.testdir())
    t.teardown(young.close)
    await young.fill(10)
    const [first] = anchors as [Checkpoint]
    const own = (await anchorOf(young)).origin
    const old = { ...first, origin: own }
    t.match(verified(await exported(young), { anchors: [old] }).faults, [/^The end is missing: an anchor has 100/])
    await young.fill(100)
    t.match(verified(await exported(young), { anchors: [old] }).faults, [/^The past was rewritten: the first 100/])
  })
})

t.test('finds every tampering with an export', async t => {
  const { log } = await aLog(t.testdir())
  t.teardown(log.close)
  const text = await exported(log)
  const { below: draw } = createRandom(1)
  const unfound: string[] = []
  const kinds = new Set<string>()
  for (let n = 0; n < repetitions(600, 10_000); n++) {
    const { kind, bytes } = tampered(text, draw)
    kinds.add(kind)
    if (verified(bytes, {}, 1 + draw(5000)).faults.length === 0) unfound.push(`${n} ${kind}`)
  }
  t.same(unfound, [])
  t.ok(kinds.size >= 9)
})

t.test('finds each changed bit of a line without an entry, and of the first and the last line', async t => {
  const log = await openLog(t.testdir(), { keepDays: 10 })
  t.teardown(log.close)
  await log.fill(2)
  log.clock.advance(20 * dayMs)
  await log.fill(1)
  const bytes = Buffer.from(await exported(log))
  const unfound: string[] = []
  for (let at = 0; at < bytes.length; at++) {
    for (let bit = 0; bit < 8; bit++) {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] as number) ^ (1 << bit)
      if (verified(changed, {}, bytes.length).faults.length === 0) unfound.push(`byte ${at}, bit ${bit}`)
    }
  }
  t.same(unfound, [])
})

t.test('refuses what is not an export', async t => {
  for (const text of ['', '\n', 'x\n', '{}\n', 'null\n', '{"svcAudit":1,"key":7}\n', '{"svcAudit":2,"key":"a"}\n'])
    t.equal(verified(text).faults.length, 1, text)
  t.match(verified('{"svcAudit":2,"key":"a"}\n').faults, [/version 2/])
  t.match(verified('{"svcAudit":1,"key":"a"}\n').faults, [/no checkpoint/])
})
