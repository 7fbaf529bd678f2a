import t from 'tap'
import {
  deleteReceiptsOf,
  findReceipt,
  importReceipt,
  lastReceipt,
  listReceipts,
  owedReceipts,
  oweReceipt,
  putReceipt
} from '../../../../lib/core/store/tables/receipts.js'
import { aStore } from '../stage.js'

const made = (deployId: string, number: number) => {
  return {
    deployId,
    number,
    sha256: String(number).repeat(64),
    issuedAt: `2026-11-0${number}T00:00:00.000Z`,
    text: `text ${number}\n`
  }
}

t.test('a receipt is owed, then made once', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    oweReceipt(tx, { id: 'dep_1', projectId: 'proj_1' })
    oweReceipt(tx, { id: 'dep_2', projectId: 'proj_1' })
    oweReceipt(tx, { id: 'dep_1', projectId: 'proj_1' })
  })
  t.strictSame(owedReceipts(store), ['dep_1', 'dep_2'])
  t.strictSame([findReceipt(store, 'dep_1'), findReceipt(store, 'dep_3')], [null, undefined])
  t.equal(lastReceipt(store, 'proj_1'), undefined)
  t.equal(await store.write(tx => putReceipt(tx, made('dep_2', 1))), true)
  t.equal(await store.write(tx => putReceipt(tx, made('dep_2', 2))), false, 'it is never replaced')
  t.equal(await store.write(tx => putReceipt(tx, made('dep_3', 2))), false, 'nobody owes it')
  t.strictSame(findReceipt(store, 'dep_2'), { ...made('dep_2', 1), projectId: 'proj_1', isImported: false })
  t.match(lastReceipt(store, 'proj_1'), { deployId: 'dep_2', number: 1 })
  t.strictSame(owedReceipts(store), ['dep_1'])
})

t.test('receipts of another server are kept, but begin no chain here', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    t.equal(importReceipt(tx, { ...made('dep_1', 7), projectId: 'proj_1' }), true)
    t.equal(importReceipt(tx, { ...made('dep_1', 8), projectId: 'proj_1' }), false)
    oweReceipt(tx, { id: 'dep_1', projectId: 'proj_1' })
  })
  t.equal(lastReceipt(store, 'proj_1'), undefined)
  t.match(findReceipt(store, 'dep_1'), { number: 7, isImported: true, text: 'text 7\n' })
  t.strictSame(owedReceipts(store), [])
})

t.test('lists receipts by project, time and position, and removes those of a project', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    for (const [n, projectId] of ['proj_1', 'proj_2', 'proj_1', 'proj_1'].entries()) {
      oweReceipt(tx, { id: `dep_${n + 1}`, projectId })
      if (n < 3) putReceipt(tx, made(`dep_${n + 1}`, n + 1))
    }
  })
  const ids = (filter: Partial<Parameters<typeof listReceipts>[1]>): string[] =>
    listReceipts(store, { limit: 10, ...filter }).map(({ deployId }) => deployId)
  t.strictSame(ids({}), ['dep_1', 'dep_2', 'dep_3'], 'one that is owed is not listed')
  t.strictSame(ids({ projectId: 'proj_1' }), ['dep_1', 'dep_3'])
  t.strictSame(ids({ projects: ['proj_2'] }), ['dep_2'])
  t.strictSame(ids({ projects: [] }), [])
  t.strictSame(ids({ since: '2026-11-02T00:00:00.000Z' }), ['dep_2', 'dep_3'])
  t.strictSame(ids({ after: 'dep_1', limit: 1 }), ['dep_2'])
  await store.write(tx => deleteReceiptsOf(tx, 'proj_1'))
  t.strictSame(ids({}), ['dep_2'])
  t.strictSame(owedReceipts(store), [])
})
