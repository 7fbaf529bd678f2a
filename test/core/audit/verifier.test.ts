import t from 'tap'
import {
  type Checkpoint,
  readCheckpoint,
  readNote,
  readVerifierKey,
  type SignedNote
} from '../../../lib/core/audit/signed-note.js'
import { firstSeed, repetitions } from '../../support/thorough.js'
import { createRandom } from '../../support/random.js'
import { exported, verified } from './export-stage.js'
import { openLog, type Log } from './stage.js'
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
  const { below: draw } = createRandom(firstSeed)
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

t.test('accepts hashes instead of entries only where the server has put them', async t => {
  const log = await openLog(t.testdir())
  t.teardown(log.close)
  await log.fill(600)
  const note = (await log.keeper.current())?.note as string
  const whole = await exported(log)
  const part = await exported(log, { from: 300, to: 400 })
  t.match(verified(part), { faults: [], entries: 101, omitted: 499, version: 2 })

  await t.test('at each entry, alone and up to each end', async t => {
    const unfound: string[] = []
    for (const [name, text] of Object.entries({ whole, part })) {
      const all = Array.from({ length: 600 }, (_, at) => at + 1)
      for (const seq of all) {
        for (const [from, to] of [
          [seq, seq],
          [seq, 600],
          [1, seq]
        ] as Array<[number, number]>) {
          const forged = omitted(text, from, to)
          if (forged !== text && verified(forged, {}, forged.length).faults.length === 0)
            unfound.push(`${name} ${from}-${to}`)
        }
      }
    }
    t.same(unfound, [])
  })

  await t.test('also if the export claims to be an older one', async t => {
    const older = (text: string) =>
      text.replace('"svcAudit":2', '"svcAudit":1').replace(/\{"checkpoint".*/, JSON.stringify({ checkpoint: note }))
    t.match(verified(older(whole)), { faults: [], version: 1 }, 'a complete one proves itself')
    for (const text of [part, omitted(whole, 600, 600), omitted(whole, 1, 1)]) {
      t.match(verified(older(text)).faults, [/entries are left out, and nothing signs/])
      t.same(verified(older(text), { allowsUnsigned: true }).faults, [])
    }
    t.match(verified(older(whole).replace('"svcAudit":1', '"svcAudit":2')).faults, [/does not sign these lines/])
  })

  await t.test('with the checkpoint of another export', async t => {
    const last = (text: string) => text.slice(text.lastIndexOf('{"checkpoint"'))
    t.match(verified(omitted(whole, 1, 299).replace(/\{"checkpoint".*\n/, () => last(part))).faults, [/does not sign/])
  })
})

/** Relabels the entries of a range as not exported, as somebody without the key can do. */
function omitted(text: string, from: number, to: number): string {
  return text.replace(/^(\{"leaf":"[^"]+",)"(?:entry":\{"seq":(\d+).*\}|removed":(\d+))\}$/gm, (line, leaf, a, b) => {
    const seq = Number(a ?? b)
    return seq >= from && seq <= to ? `${leaf}"omitted":${seq}}` : line
  })
}

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
  for (const text of [
    '',
    '\n',
    'x\n',
    '{}\n',
    'null\n',
    '{"svcAudit":1,"key":7}\n',
    '{"svcAudit":{"toString":1},"key":"a"}\n',
    '{"svcAudit":2,"key":"a"}\n'
  ])
    t.equal(verified(text).faults.length, 1, text)
  t.match(verified('{"svcAudit":3,"key":"a"}\n').faults, [/version 3/])
  t.match(verified('{"svcAudit":2,"key":"a"}\n').faults, [/no checkpoint/])
})
