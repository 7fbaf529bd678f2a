import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { sha256 } from '../../lib/base/digests.js'
import { stagingName } from '../../lib/core/install/staging.js'
import { formOf } from '../support/client.js'
import { startHubs, type Hub } from '../support/hubs.js'
import { adminToken } from '../support/server.js'
import { until } from '../support/until.js'
import { zipOf } from '../support/zip.js'

/* Whatever a client asks, a follower answers as the leader would. */

interface Asked {
  method?: string
  path: string
  headers?: Record<string, string>
  body?: Buffer | string
}

/** Headers that belong to a connection or to a moment. A follower lets nobody buffer what it passes on. */
const ownHeaders = [
  'x-accel-buffering',
  'date',
  'connection',
  'keep-alive',
  'svc-sequence',
  'trailer',
  'transfer-encoding'
]

async function ask({ url }: Hub, { method = 'GET', path, headers = {}, body }: Asked) {
  const all = { authorization: `Bearer ${adminToken}`, ...headers }
  const given = body === undefined ? all : { 'content-type': 'application/json', ...all }
  const sent = httpRequest(url + path, { method, headers: given, agent: false })
  sent.on('error', () => {})
  sent.end(body)
  const [answer] = await once(sent, 'response')
  const chunks: Buffer[] = []
  for await (const chunk of answer) chunks.push(chunk)
  const kept = Object.entries(answer.headers as Record<string, string>).filter(([name]) => !ownHeaders.includes(name))
  return {
    status: answer.statusCode as number,
    headers: Object.fromEntries(kept),
    body: Buffer.concat(chunks).toString('latin1')
  }
}

t.test('a follower answers as the leader would', async t => {
  const { hubs, sites } = await startHubs(t)
  const [leader, follower] = hubs as [Hub, Hub]
  const created = await leader.client.post('/api/projects', { name: 'Shop', deployPath: `${sites}/shop` })
  const { id, token } = created.body.project ?? created.body
  await until(async () => (await follower.client.get(`/api/projects/${id}`)).status === 200)
  for (let n = 0; n < 20; n++) {
    t.equal((await follower.client.post('/api/tags', { name: `tag ${n}`, color: 'blue' })).status, 200)
    const tags = (await follower.client.get('/api/tags')).text
    if (!tags.includes(`"tag ${n}"`)) t.fail(`what was changed through a follower is not read there: ${n}`)
  }
  const deployer = { authorization: `Bearer ${token}` }
  const { contentType, body: form } = formOf([
    ['projectId', id],
    ['file', { filename: 'site.zip', bytes: randomBytes(5_000_000) }]
  ])
  const json = (value: object) => JSON.stringify(value)
  const cases: Record<string, Asked> = {
    'a read of the leader': { path: `/api/projects/${id}/tree` },
    'a page that is missing': { path: '/api/projects/none/tree' },
    'a route that is missing': { method: 'POST', path: '/api/nothing', body: '{}' },
    'another method': { method: 'PATCH', path: '/api/projects', body: '{}' },
    'a HEAD': { method: 'HEAD', path: `/api/projects/${id}/tree` },
    'no token': { method: 'POST', path: '/api/projects', headers: { authorization: '' }, body: '{}' },
    'a wrong token': { method: 'POST', path: '/api/projects', headers: { authorization: 'Bearer no' }, body: '{}' },
    'too few rights': { method: 'POST', path: '/api/projects', headers: deployer, body: '{}' },
    'a malformed body': { method: 'POST', path: '/api/projects', body: '{' },
    'an empty body': { method: 'POST', path: '/api/projects', body: '' },
    'no body': { method: 'POST', path: '/api/projects' },
    'another type': { method: 'POST', path: '/api/projects', headers: { 'content-type': 'text/plain' }, body: 'x' },
    'a conflict': { method: 'POST', path: '/api/projects', body: json({ name: 'Shop', deployPath: `${sites}/shop` }) },
    'an unknown field': { method: 'POST', path: '/api/projects', body: json({ name: 'A', none: 1 }) },
    'a body in pieces': {
      method: 'POST',
      path: '/api/projects',
      headers: { 'transfer-encoding': 'chunked' },
      body: '{'
    },
    'a body with Expect': { method: 'POST', path: '/api/projects', headers: { expect: '100-continue' }, body: '{' },
    'a body that is too large': { method: 'POST', path: '/api/projects', body: 'x'.repeat(8_000_000) },
    'an upload without a token': {
      method: 'POST',
      path: '/api/deploy/upload',
      headers: { authorization: 'Bearer no', 'content-type': contentType },
      body: form
    },
    'an upload that cannot be deployed': {
      method: 'POST',
      path: '/api/deploy/upload',
      headers: { ...deployer, 'content-type': contentType },
      body: form
    },
    'an upload with Expect': {
      method: 'POST',
      path: '/api/deploy/upload',
      headers: { ...deployer, 'content-type': contentType, expect: '100-continue' },
      body: form
    },
    'a form that is cut': {
      method: 'POST',
      path: '/api/deploy/upload',
      headers: { ...deployer, 'content-type': contentType },
      body: form.subarray(0, 1000)
    },
    'a part of what is sent whole': { path: `/api/projects/${id}/tree`, headers: { range: 'bytes=0-3' } },
    'a stream of what is missing': { path: '/api/logs/none/stream' },
    'a terminal without a handshake': { path: '/api/nodes/none/terminal' },
    'a node that is missing': { path: '/api/nodes/none/at/projects' },
    'a request of an agent': { method: 'POST', path: '/api/agent/reports', body: '{}' },
    'an enrollment': { method: 'POST', path: '/api/agent/enroll', body: '{}' },
    'a precondition': { method: 'PUT', path: `/api/projects/${id}`, headers: { 'if-match': '"no"' }, body: '{}' },
    'an id with a slash': { method: 'DELETE', path: '/api/projects/a%2Fb' },
    'a malformed path': { method: 'DELETE', path: '/api/projects/%zz' },
    'a query twice': { method: 'POST', path: '/api/projects?a=1&a=2', body: '{}' }
  }
  for (const [what, asked] of Object.entries(cases)) {
    const expected = await ask(leader, asked)
    const found = await ask(follower, asked)
    t.strictSame(found, expected, `${what}: ${expected.status}`)
  }
})

t.test('pieces that come through different hubs become one archive', async t => {
  const { hubs, sites } = await startHubs(t)
  const [leader, follower] = hubs as [Hub, Hub]
  const created = await leader.client.post('/api/projects', { name: 'Shop', deployPath: `${sites}/shop` })
  const { id, token } = created.body.project ?? created.body
  await until(async () => (await follower.client.get(`/api/projects/${id}`)).status === 200)
  const zip = await zipOf({ 'index.html': randomBytes(300_000).toString('latin1') })
  const authorization = `Bearer ${token}`
  const announced = JSON.stringify({ projectId: id, bytes: zip.length, sha256: sha256(zip).toString('hex') })
  const begun = await ask(follower, {
    method: 'POST',
    path: '/api/uploads',
    headers: { authorization },
    body: announced
  })
  const path = `/api/uploads/${JSON.parse(begun.body).uploadId}`
  const append = (hub: Hub, offset: number, length: number) => {
    const headers = { authorization, 'upload-offset': String(offset), 'content-type': 'application/octet-stream' }
    return ask(hub, { method: 'PATCH', path, headers, body: zip.subarray(offset, offset + length) })
  }
  t.match(await append(follower, 0, 100_000), { status: 200, headers: { 'upload-offset': '100000' } })
  t.match(await append(follower, 0, 100_000), { status: 409, headers: { 'upload-offset': '100000' } })
  t.match(await append(leader, 100_000, 50_000), { status: 200 })
  t.match(await ask(follower, { path, headers: { authorization } }), { headers: { 'upload-offset': '150000' } })
  t.match(await append(follower, 150_000, zip.length), { status: 200 })
  const { contentType, body } = formOf([
    ['projectId', id],
    ['uploadId', JSON.parse(begun.body).uploadId]
  ])
  const headers = { authorization, 'content-type': contentType }
  const deployed = await ask(follower, { method: 'POST', path: '/api/deploy/upload', headers, body })
  t.match(JSON.parse(deployed.body), { code: 'not_placed' }, 'its digest is right; a hub deploys to nodes')

  const { client } = leader
  await client.post(`/api/projects/${id}/token`)
  t.match(await append(follower, 0, 1), { status: 401 }, 'the leader knows a token that was replaced meanwhile')
  const minted = (await client.post('/api/tokens', { name: 'short', role: 'deployer' })).body
  const named = { authorization: `Bearer ${minted.token}` }
  const open = await ask(follower, { method: 'POST', path: '/api/uploads', headers: named, body: announced })
  const piece = (offset: number) => {
    const sent = { ...named, 'upload-offset': String(offset), 'content-type': 'application/octet-stream' }
    const place = `/api/uploads/${JSON.parse(open.body).uploadId}`
    return ask(follower, { method: 'PATCH', path: place, headers: sent, body: zip.subarray(offset, offset + 100) })
  }
  t.match(await piece(0), { status: 200 })
  const expiresAt = new Date(Date.now() + 3000).toISOString()
  t.match(await client.patch(`/api/tokens/${minted.record.id}`, { expiresAt }), { status: 200 })
  await until(() => Date.now() > Date.parse(expiresAt))
  t.match(await piece(100), { status: 200 }, 'an expired token finishes what it began')
  await client.delete(`/api/tokens/${minted.record.id}`)
  t.match(await piece(200), { status: 401, body: /token_revoked/ }, 'a revoked one does not')
})

t.test('a target is given up on the machine of the hub that was asked, and the leader records it', async t => {
  const { hubs } = await startHubs(t)
  const [leader, follower] = hubs as [Hub, Hub]
  const id = 'dep_aaaaaaaaaaaaaaaa'
  const journalOf = ({ directory }: Hub): string => join(directory, 'deployments', `${id}.undo`)
  for (const hub of [leader, follower]) writeFileSync(journalOf(hub), `svc-undo 4\ntarget ${hub.directory}/away\n`)
  const { client } = follower
  const target = `${follower.directory}/away`
  t.match((await client.get('/api/health/detail')).body.unfinishedTargets, [{ deployId: id, target }])
  const path = `/api/unfinished-targets/${id}`
  mkdirSync(join(target, stagingName(id)), { recursive: true })
  t.match(await client.delete(path), { status: 409, body: { code: 'target_there' } }, 'it looks on that machine, too')
  rmSync(target, { recursive: true })
  t.match(await client.delete(path), { status: 200, body: { given: { deployId: id, target } } })
  t.strictSame(
    [leader, follower].map(hub => existsSync(journalOf(hub))),
    [true, false]
  )
  const { body } = await leader.client.get('/api/audit?action=deployment.give_up')
  t.match(body, { items: [{ target: id, detail: `${target} on the hub "h2"`, actor: 'admin' }] })
  t.match(await client.delete(path), { status: 404 })
  t.ok(existsSync(journalOf(leader)), 'that of the leader stays')
  t.match(await leader.client.delete(path), { status: 200, body: { given: { target: `${leader.directory}/away` } } })
})
