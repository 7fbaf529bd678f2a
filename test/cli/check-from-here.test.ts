import t from 'tap'
import { checkFromHere } from '../../lib/cli/check-from-here.js'
import { statusServer } from '../support/held.js'

function stage(url: string, confirm = async () => {}) {
  const confirmed: string[] = []
  const notes: string[] = []
  const stop = new AbortController()
  const check = (ms: number): Promise<void> =>
    checkFromHere(
      { deployId: 'dep_a', until: new Date(Date.now() + ms).toISOString() },
      {
        api: { confirm: async id => (await confirm(), void confirmed.push(id)) },
        url: new URL(url),
        note: line => notes.push(line),
        signal: stop.signal
      }
    )
  return { check, confirmed, notes, stop }
}

t.test('confirms as soon as the URL answers', async t => {
  const server = await statusServer(t)
  server.status = 502
  const { check, confirmed, notes } = stage(server.url)
  setTimeout(() => (server.status = 204), 300)
  await check(60_000)
  t.strictSame(confirmed, ['dep_a'])
  t.strictSame(notes, [`${server.url}: 502`, `${server.url}: 204`])
})

t.test('confirms nothing if the URL does not answer in time', async t => {
  const server = await statusServer(t)
  server.status = 302
  const { check, confirmed } = stage(server.url)
  await check(300)
  t.strictSame(confirmed, [])
})

t.test('says why it cannot confirm, and stops when the user does', async t => {
  const server = await statusServer(t)
  const failing = stage(server.url, async () => {
    throw new Error('too late')
  })
  await failing.check(60_000)
  t.match(failing.notes.at(-1), /Cannot confirm the deployment: too late/)
  server.status = 500
  const { check, stop, notes } = stage(server.url)
  setTimeout(() => stop.abort(), 100)
  await check(60_000)
  t.strictSame(notes, [`${server.url}: 500`])
})
