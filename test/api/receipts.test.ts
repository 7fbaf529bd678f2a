import t from 'tap'
import { readReceipt } from '../../lib/core/proof/receipt.js'
import { readReceipts, verifyReceipts } from '../../lib/core/proof/receipt-chain.js'
import { readTrustedKey } from '../../lib/core/proof/server-keys.js'
import { eventsOf } from '../support/client.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'

/* `GET /api/deployments/:id/receipt` and `GET /api/receipts`. */

t.test('receipts are read one by one and all together', async t => {
  const stage = await startServer(t)
  const { client } = stage
  const [shop, blog] = [await stage.createProject('shop'), await stage.createProject('blog')]
  const deployer = stage.as((await client.post('/api/tokens', { name: 'ci', role: 'deployer' })).body.token)
  const push = async (projectId: string, text: string): Promise<string> => {
    const file = { filename: 'site.zip', bytes: await zipOf({ 'a.txt': text }) }
    const events = eventsOf(
      await deployer.upload([
        ['projectId', projectId],
        ['file', file]
      ])
    )
    const { deployId } = events.at(-1) as { deployId?: string }
    if (deployId === undefined) throw new Error(JSON.stringify(events))
    return deployId
  }
  const ids = [await push(shop.id, 'one'), await push(blog.id, 'one'), await push(shop.id, 'two')]
  const [one = ''] = ids
  const reply = await client.get(`/api/deployments/${one}/receipt`)
  t.match(reply, { status: 200, headers: { 'content-disposition': `attachment; filename="${one}.receipt.json"` } })
  const { receipt } = readReceipt(reply.text)
  t.match(receipt, { project: { id: shop.id }, chain: { number: 1 }, deployment: { id: one, late: false } })
  t.ok((receipt.audit?.size ?? 0) > 0, 'it names the audit log')
  const result = await client.get(`/api/deployments/${one}/receipt?form=result`)
  t.match(JSON.parse(Buffer.from(result.body.payload, 'base64').toString()), { predicate: { properties: [] } })
  t.match(await client.get(`/api/deployments/${one}/receipt?form=other`), {
    status: 400,
    body: { code: 'invalid_field' }
  })
  t.match(await client.get('/api/deployments/dep_none/receipt'), { status: 404, body: { code: 'not_found' } })

  const all = await client.get('/api/receipts')
  const file = readReceipts(all.text, 'all')
  t.strictSame(
    file.receipts.map(({ receipt }) => receipt.deployment.id),
    ids
  )
  const { key } = (await client.get('/api/audit/checkpoint')).body
  const keys = [readTrustedKey(key)]
  t.match(verifyReceipts(file.receipts, { keys, successors: [], revoked: new Set() }), {
    faults: [],
    chains: [
      { project: 'shop', last: 2 },
      { project: 'blog', last: 1 }
    ]
  })
  const of = async (query: string, as = client): Promise<string[]> =>
    readReceipts((await as.get(`/api/receipts${query}`)).text, 'some').receipts.map(each => each.receipt.project.name)
  t.strictSame(await of(`?projectId=${blog.id}`), ['blog'])
  t.match(
    (await client.get('/api/receipts?since=2099-01-01T00:00:00Z')).text,
    /^{"svcReceipts":"1","successors":\[\]}\n$/
  )
  t.match(await client.get('/api/receipts?since=yesterday'), { status: 400 })

  const limited = (await client.post('/api/tokens', { name: 'ana', role: 'viewer', projectIds: [blog.id] })).body.token
  t.strictSame(await of('', stage.as(limited)), ['blog'])
  t.match(await stage.as(limited).get(`/api/receipts?projectId=${shop.id}`), { status: 404 })
  t.match(await stage.as(limited).get(`/api/deployments/${one}/receipt`), { status: 404 })

  await client.delete(`/api/projects/${blog.id}`)
  t.strictSame(await of(''), ['shop', 'shop'], 'receipts are removed with their project')
})
