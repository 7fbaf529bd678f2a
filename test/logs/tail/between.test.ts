import { statSync, unlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createDeny } from '../../../lib/logs/read/deny.js'
import { createOpenLog } from '../../../lib/logs/read/open.js'
import { filesBetween, rotationOf } from '../../../lib/logs/tail/between.js'

const names: Array<[log: string, name: string, number: number | null | undefined]> = [
  ['app.log', 'app.log', undefined],
  ['app.log', 'app.log.1', 1],
  ['app.log', 'app.log.12.gz', 12],
  ['app.log', 'app.log-20260131', null],
  ['app.log', 'app.log-20260131.gz', null],
  ['app.log', 'app.log.20260131', null],
  ['app.log', 'app-20260131.log', null],
  ['app.log', 'app__2026-01-31_00-00-10.log', null],
  ['app.log', 'app.2026-01-31T10:00:00Z.log.gz', null],
  ['app.log', 'app.3.log', null],
  ['app', 'app.1', 1],
  ['app.log', 'app.log.gz', undefined],
  ['app.log', 'app.log.bak', undefined],
  ['app.log', 'app-error.log', undefined],
  ['app.log', 'app2.log', undefined],
  ['app.log', 'app.log.1.swp', undefined],
  ['app.log', 'other.log.1', undefined]
]

for (const [log, name, number] of names) {
  t.test(`"${name}" is ${number === undefined ? 'no' : 'a'} rotated file of "${log}"`, async t => {
    t.equal(rotationOf(log, name), number)
  })
}

const openLog = createOpenLog({ deny: createDeny([]), secrets: [] })

/** Files of a log, the oldest first, and what is found between the first and the last of them. */
async function find(t: Test, files: string[], { seconds = [] as number[], told = [] as string[] } = {}) {
  const directory = t.testdir({})
  const at = (name: string): string => join(directory, name)
  for (const [index, name] of files.entries()) {
    writeFileSync(at(name), name)
    const time = seconds[index] ?? 1_800_000_000 + index
    utimesSync(at(name), time, time)
  }
  const statOf = (name: string | undefined) => statSync(at(name as string), { bigint: true })
  const identityOf = (name: string | undefined): string => `${statOf(name).dev}:${statOf(name).ino}`
  const query = {
    path: at('app.log'),
    after: { identity: identityOf(files[0]), mtimeMs: Number(statOf(files[0]).mtimeMs) },
    before: { identity: identityOf(files.at(-1)), birthMs: Infinity },
    sinceMs: 0,
    told: new Set(told.map(identityOf))
  }
  return {
    at,
    query,
    async between(more: Partial<typeof query> = {}) {
      const { files, isGap, lostBytes } = await filesBetween(openLog, { ...query, ...more })
      const found: string[] = []
      for (const { handle, path } of files) {
        found.push(await readFile(path, 'utf8'))
        await handle.close()
      }
      return { found, isGap, lostBytes }
    }
  }
}

const nothingLost = { isGap: false, lostBytes: 0 }

t.test('orders numbered files by their numbers, whatever their times say', async t => {
  const files = ['app.log.3', 'app.log.2', 'app.log.1', 'app.log']
  const { between } = await find(t, [...files, 'app.log'].slice(0, 4), { seconds: [5, 5, 4, 6] })
  t.same(await between(), { found: ['app.log.2', 'app.log.1'], ...nothingLost })
})

t.test('orders dated files by their times, and leaves out older, younger and told ones', async t => {
  const files = ['app-20260131.log', 'app-20260132.log', 'app-20260133.log', 'app.log']
  const { between } = await find(t, files)
  t.same(await between(), { found: ['app-20260132.log', 'app-20260133.log'], ...nothingLost })
  t.same(await between({ sinceMs: Date.now() + 60_000 }), { found: [], ...nothingLost }, 'they existed before')
  t.same(await between({ before: { identity: 'none', birthMs: 0 } }), { found: [], ...nothingLost }, 'made later')
  const told = await find(t, files, { told: ['app-20260132.log'] })
  t.same(await told.between(), { found: ['app-20260133.log'], ...nothingLost })
})

t.test('a number that is missing is a gap', async t => {
  const { between, at } = await find(t, ['app.log.4', 'app.log.3', 'app.log.2', 'app.log.1', 'app.log'])
  unlinkSync(at('app.log.2'))
  t.same(await between(), { found: ['app.log.3', 'app.log.1'], isGap: true, lostBytes: 0 })
})

t.test('a file that svc must not read is a gap of its size', async t => {
  const { query, at } = await find(t, ['app.log.2', 'app.log.1', 'app.log'])
  const denied = createOpenLog({ deny: createDeny([at('app.log.1')]), secrets: [] })
  t.same(await filesBetween(denied, query), { files: [], isGap: true, lostBytes: 'app.log.1'.length })
})
