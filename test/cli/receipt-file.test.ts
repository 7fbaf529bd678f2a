import { chmodSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { listText, readReceiptFiles, treeFaults } from '../../lib/cli/receipt-file.js'
import { sha256 } from '../../lib/base/digests.js'
import { readReceipt, receiptText } from '../../lib/core/proof/receipt.js'
import { aChain, aStatement, newTestKey } from '../support/receipts.js'

const key = newTestKey()
const sum = (text: string): string => sha256(Buffer.from(text)).toString('hex')
const file = (path: string, text: string) => ({
  path,
  size: text.length,
  mode: 0o100644,
  sha256: sum(text),
  before: null
})
const released = [file('b.txt', 'two'), file('a.txt', 'one')]
const list = listText(released)
const contents = `${sum('one')}  a.txt\n${sum('two')}  b.txt\n`

function receiptOf(subjects: ReturnType<typeof aStatement>['subjects']) {
  const { receipt } = aStatement(key, 1)
  const count0 = { count: 0, sha256: sum('') }
  const files = { placed: 2, added: count0, changed: count0, removed: count0 }
  return readReceipt(receiptText({ subjects, receipt: { ...receipt, files } }, key))
}
const receipt = receiptOf([
  { name: 'shop', digest: { sha256: sum(list), dirHash: sum(contents) } },
  { name: 'dep_1.zip', digest: { sha256: sum('zip') } }
])

t.test('a directory is compared with a release', async t => {
  const directory = t.testdir({ 'a.txt': 'one', 'b.txt': 'two' })
  for (const name of ['a.txt', 'b.txt']) chmodSync(join(directory, name), 0o644)
  t.strictSame(await treeFaults(receipt, directory, null), [])
  t.strictSame(await treeFaults(receipt, directory, list), [])
  chmodSync(join(directory, 'a.txt'), 0o755)
  t.match(await treeFaults(receipt, directory, null), [/permissions or links differ/])
  t.strictSame(await treeFaults(receipt, directory, list), ['Other permissions: a.txt'])
  writeFileSync(join(directory, 'b.txt'), 'three')
  symlinkSync('a.txt', join(directory, 'c.txt'))
  t.match(await treeFaults(receipt, directory, null), [/its 3 files give the tree [0-9a-f]{64}/])
  t.strictSame(await treeFaults(receipt, directory, list), [
    'Other permissions: a.txt',
    'Changed: b.txt',
    'Not in the release: c.txt'
  ])
  t.strictSame((await treeFaults(receipt, t.testdir({ x: {} }), list)).slice(0, 1), ['Missing: a.txt'])
  t.match(await treeFaults(receipt, directory, `${list}x`), [/not that of the release/])
  const many = t.testdir(Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`n${n}`, ''])))
  t.match((await treeFaults(receipt, many, list)).slice(-2), [/Not in the release/, '… and 12 more differences'])
  const archive = receiptOf([{ name: 'dep_1.zip', digest: { sha256: sum('zip') } }])
  t.match(await treeFaults(archive, directory, null), [/about no release/])
  await t.rejects(treeFaults(receipt, join(many, 'n1'), null), { message: /is not a directory/ })
})

t.test('receipts are read from files and directories', async t => {
  const [one = '', two = ''] = aChain(key, [1, 2])
  const cwd = t.testdir({ all: { '1.json': one, '2.jsonl': two, 'notes.txt': 'notes' }, none: {} })
  const { receipts } = await readReceiptFiles(['all', 'all/1.json'], cwd)
  t.strictSame(
    receipts.map(each => each.receipt.chain.number),
    [1, 2, 1]
  )
  await t.rejects(readReceiptFiles(['none'], cwd), { code: 'file_unreadable' })
  await t.rejects(readReceiptFiles(['absent'], cwd), { code: 'file_unreadable' })
})
