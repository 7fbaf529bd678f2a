import { cpSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { createProofs } from '../../lib/core/audit/export.js'
import { createServerKey } from '../../lib/core/audit/signed-note.js'
import { readAuditTree } from '../../lib/core/store/tables/audit.js'
import { Refusal } from '../../lib/base/errors.js'
import type { Client } from '../../lib/cli/client/client.js'
import { witness } from '../../lib/cli/witness.js'
import { stubClient } from '../support/stub-client.js'
import { openLog, type Log } from '../core/audit/stage.js'

/** A client of a server with this audit log. */
function clientOf(log: Log, address = 'https://deploy.example.org'): Client {
  const proofs = createProofs(log)
  const answers = {
    'GET /api/audit/checkpoint': () => proofs.checkpoint(),
    'GET /api/audit/proof': ({ query }: { query: { from: number; to: number } }) =>
      proofs.consistency(query.from, query.to)
  }
  return stubClient(answers, { address })
}

/** A client of a server without the routes, or one that cannot be reached. */
function refusingClient(refusal: Refusal): Client {
  return stubClient(
    { 'GET /api/audit/checkpoint': () => Promise.reject(refusal) },
    { address: 'https://deploy.example.org' }
  )
}

const notFound = new Refusal('not_found', 'not_found', 'Not found')

async function aLog(t: Test, directory = t.testdir()): Promise<Log> {
  const log = await openLog(directory)
  t.teardown(() => log.close().catch(() => {}))
  return log
}

t.test('keeps the newest checkpoint of a server whose log only grows', async t => {
  const log = await aLog(t)
  const directory = join(t.testdir({ home: {} }), 'home/witness')
  for (const count of [1, 300, 0, 5]) {
    await log.fill(count)
    t.equal(await witness(clientOf(log), directory), null)
  }
  const names = readdirSync(directory)
  t.equal(names.length, 2)
  const note = names.find(name => /^[0-9a-f]{8}\.note$/.test(name)) as string
  t.equal(readFileSync(join(directory, note), 'utf8'), log.keeper.newest()?.note)
  t.equal(await witness(clientOf(log, 'http://127.0.0.1:5431'), directory), null, 'at another address, too')
  t.equal(readdirSync(directory).length, 2)
})

t.test('says nothing about older servers and about failures of the network', async t => {
  const directory = join(t.testdir(), 'witness')
  for (const refusal of [notFound, new Refusal('unavailable', 'unreachable', 'Cannot reach it')])
    t.equal(await witness(refusingClient(refusal), directory), null)
})

t.test('finds what a server did to its log', async t => {
  const stages = t.testdir({ server: {} })
  const log = await openLog(join(stages, 'server'))
  await log.fill(100)
  const directory = join(stages, 'witness')
  t.equal(await witness(clientOf(log), directory), null)
  await log.close()
  cpSync(join(stages, 'server'), join(stages, 'old'), { recursive: true })
  const later = await aLog(t, join(stages, 'server'))
  await later.fill(50)
  t.equal(await witness(clientOf(later), directory), null)
  const seen = readFileSync(
    join(directory, readdirSync(directory).find(name => name.endsWith('.note')) as string),
    'utf8'
  )

  await t.test('lost entries, as after the restore of a backup', async t => {
    const restored = await aLog(t, join(stages, 'old'))
    t.match(
      await witness(clientOf(restored), directory),
      /has lost entries: it had 150, and now has 100\. .*remove that/
    )
    t.match(await witness(clientOf(restored, 'http://10.0.0.1'), directory), /lost entries/, 'at another address')
    await restored.fill(60)
    t.match(await witness(clientOf(restored), directory), /was rewritten: it does not begin with the 150 entries/)
    await restored.close()
  })

  await t.test('another key', async t => {
    const other = await aLog(t)
    await other.fill(200)
    t.match(await witness(clientOf(other), directory), /another key \([0-9a-f]{8}\) than before/)
  })

  await t.test('no log any more', async t => {
    t.match(await witness(refusingClient(notFound), directory), /does not show its audit log, which had 150 entries/)
  })

  await t.test('a checkpoint that is not signed', async t => {
    const forging = clientOf(later)
    const answer = await forging.call('GET /api/audit/checkpoint')
    const forged = { ...answer, note: answer.note.replace('\n150\n', '\n151\n') }
    for (const each of [forged, {}]) {
      const client = stubClient({ 'GET /api/audit/checkpoint': () => each }, { address: forging.address })
      t.match(await witness(client, directory), /not valid/)
    }
  })

  const note = readdirSync(directory).find(name => name.endsWith('.note')) as string
  t.equal(readFileSync(join(directory, note), 'utf8'), seen, 'what was seen stays')
  t.equal(await witness(clientOf(later), directory), null)
})

t.test('accepts a new key that the old one signs for', async t => {
  const home = t.testdir({ server: {} })
  const log = await openLog(join(home, 'server'))
  await log.fill(10)
  const directory = join(home, 'witness')
  t.equal(await witness(clientOf(log), directory), null)
  await createServerKey(join(home, 'server/keys')).rotate(readAuditTree(log.store).origin as string)
  await log.close()
  const rotated = await aLog(t, join(home, 'server'))
  await rotated.fill(10)
  t.equal(await witness(clientOf(rotated), directory), null)
  t.equal(readdirSync(directory).filter(name => name.endsWith('.note')).length, 2)
})

t.test('begins again if its own files are damaged', async t => {
  const log = await aLog(t)
  await log.fill(10)
  const directory = join(t.testdir({ home: {} }), 'home')
  t.equal(await witness(clientOf(log), directory), null)
  for (const name of readdirSync(directory)) writeFileSync(join(directory, name), 'x')
  t.equal(await witness(clientOf(log), directory), null)
  t.equal(await witness(clientOf(log), directory), null)
})
