import '../../support/without-dom.js'
import t from 'tap'
import type { Deployment } from '../../../lib/model/deployment.js'
import type { Client } from '../../../www/server/client.js'
import { continued, merged, refreshed, type Shown } from '../../../www/pages/deployments.js'

const shown = (ids: string, total = ids.length): Shown => ({ items: [...ids].map(id => ({ id }) as Deployment), total })
const ids = ({ items }: Shown): string => items.map(({ id }) => id).join('')

t.test('puts the newest deployments before the known ones', async t => {
  for (const [known, newest, expected] of [
    [shown('dcba'), shown('fedc', 6), 'fedcba'],
    [shown('dcba'), shown('dcba'), 'dcba'],
    [shown('dcba'), shown('zyxw', 90), 'zyxw'],
    [shown(''), shown('ba'), 'ba'],
    [shown('ba'), shown('', 0), ''],
    [shown('dcba'), shown('dc', 3), 'dc']
  ] as const) {
    t.equal(ids(merged(known, newest)), expected)
    t.equal(merged(known, newest).total, newest.total)
  }
})

t.test('pages contain no deployment twice', async t => {
  const asked: unknown[] = []
  const client = {
    send: async (_method, path) => {
      asked.push(Object.fromEntries(new URL(path, 'http://svc').searchParams))
      const { items, total } = shown('cb', 4)
      return new Response(JSON.stringify(items), { headers: { 'x-total-count': String(total) } })
    }
  } as Pick<Client, 'send'> as Client
  const { signal } = new AbortController()
  t.equal(ids(await refreshed({ client, query: { status: 'failed' }, signal }, () => undefined)), 'cb')
  t.equal(ids(await continued({ client, query: {}, signal }, shown('dc', 4))), 'dcb')
  t.match(asked, [{ status: 'failed', limit: '100' }, { before: 'c' }])
})
