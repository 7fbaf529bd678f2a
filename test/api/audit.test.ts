import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { readCheckpoint, readNote } from '../../lib/core/audit/signed-note.js'
import { hashNode } from '../../lib/core/audit/tree.js'
import type { AuditCheckpoint, ConsistencyProof, InclusionProof } from '../../lib/model/audit.js'
import { isConsistent, isIncluded } from '../../lib/base/shared/merkle-proof.js'
import { verified } from '../core/audit/export-stage.js'
import { readSignedCheckpoint } from '../core/audit/note-reader.js'
import { startServer } from '../support/server.js'
import { until } from '../support/until.js'
import { zipOf } from '../support/zip.js'

t.test('the audit log', async t => {
  const { client, createProject } = await startServer(t)
  const one = await createProject('one')
  const two = await createProject('two')
  await client.put(`/api/projects/${two.id}`, { name: 'Two' })
  const items = async (query = '') =>
    (await client.get(`/api/audit${query}`)).body.items as Array<Record<string, unknown>>

  t.test('lists entries newest first, with the specified fields', async t => {
    const all = await items()
    t.same(
      all.map(({ action }) => action),
      ['project.update', 'project.create', 'project.create']
    )
    t.match(all[0], {
      id: /^aud_/,
      at: /Z$/,
      action: 'project.update',
      actor: 'admin',
      ip: '127.0.0.1',
      projectId: two.id,
      target: two.id,
      detail: 'two\nname: two → Two',
      ok: true
    })
  })

  t.test('filters and pages', async t => {
    t.equal((await items('?action=project.create')).length, 2)
    t.equal((await items(`?projectId=${one.id}`)).length, 1)
    const [newest] = await items('?limit=1')
    t.same(
      (await items(`?before=${newest?.['id']}`)).map(({ projectId }) => projectId),
      [two.id, one.id]
    )
    t.match(await client.get('/api/audit?action=nothing'), {
      status: 400,
      body: { code: 'invalid_field', field: 'action', error: /"nothing": svc does not record .* Known: auth\.login, / }
    })
    t.same(await items('?action=terminal.open'), [], 'a known one without entries')
    t.same(await items('?until=2020-01-01T00:00:00Z'), [])
    const [third, second] = await items()
    t.same((await items(`?since=${third?.['at']}`))[0], third, 'from this time on')
    t.ok((await items(`?until=${second?.['at']}`)).every(({ at }) => String(at) < String(second?.['at'])))
    t.equal((await items('?since=2020-01-01T00:00:00%2B02:00')).length, 3)
    for (const wrong of ['since=yesterday', 'until=2020'])
      t.match(await client.get(`/api/audit?${wrong}`), { status: 400, body: { code: 'invalid_field' } }, wrong)
    t.equal((await client.get('/api/audit?limit=none')).status, 400)
    t.equal((await client.get('/api/audit?before=aud_unknown')).status, 400)
  })
})

t.test('proofs of the audit log', async t => {
  const { client, as, createProject, home } = await startServer(t)
  t.match(await client.get('/api/audit/checkpoint'), { status: 404, body: { code: 'not_found' } }, 'an empty log')
  const shop = await createProject('shop')
  const checkpoint = async (): Promise<AuditCheckpoint> => (await client.get('/api/audit/checkpoint')).body
  const rootOf = ({ note }: AuditCheckpoint): Buffer =>
    readCheckpoint(readNote(note)?.text ?? '')?.root ?? Buffer.alloc(0)
  const bytesOf = (proof: string[]): Buffer[] => proof.map(hash => Buffer.from(hash, 'base64'))

  t.test('a checkpoint is signed by the key in the data directory', async t => {
    const found = await checkpoint()
    t.match(found, { size: 1, at: /Z$/ })
    t.same(readSignedCheckpoint(found.note, found.key), { size: 1, root: rootOf(found).toString('base64') })
    t.equal(readFileSync(join(home.keys, 'server.pub'), 'utf8'), `${found.key}\n`)
    t.match(await as(shop.token).get('/api/audit/checkpoint'), { status: 200 }, 'a deploy token may witness')
  })

  t.test('a consistency proof connects two checkpoints', async t => {
    const before = await checkpoint()
    for (const name of ['a', 'b', 'c', 'd']) await createProject(name)
    const after = await checkpoint()
    t.equal(after.size, before.size + 4)
    const query = `?from=${before.size}&to=${after.size}`
    const { from, to, proof } = (await as(shop.token).get(`/api/audit/proof${query}`)).body as ConsistencyProof
    const claim = { from, to, fromRoot: rootOf(before), toRoot: rootOf(after), proof: bytesOf(proof) }
    t.ok(isConsistent(claim, hashNode))
    t.same((await client.get(`/api/audit/proof?from=${before.size}`)).body, { from, to, proof }, 'up to now')
  })

  t.test('sizes that the tree does not have are refused', async t => {
    const { size } = await checkpoint()
    const wrong = ['', '?from=', '?from=x', '?from=-1', '?from=1.5', '?from=1e3', `?from=${'9'.repeat(16)}`]
    for (const query of [...wrong, '?from=3&to=2', `?from=1&to=${size + 1}`, '?from=1&to=x', `?from=${size + 1}`])
      t.match(await client.get(`/api/audit/proof${query}`), { status: 400, body: { code: 'invalid_field' } }, query)
  })

  t.test('an inclusion proof connects an entry and a checkpoint', async t => {
    const { items } = (await client.get('/api/audit')).body as { items: Array<{ id: string; seq: number }> }
    for (const { id, seq } of items) {
      const found = (await client.get(`/api/audit/inclusion?id=${id}`)).body as InclusionProof
      t.equal(found.seq, seq)
      const { size } = found.checkpoint
      const claim = { index: seq - 1, size, root: rootOf(found.checkpoint), proof: bytesOf(found.proof) }
      t.ok(isIncluded({ ...claim, leaf: Buffer.from(found.leaf, 'base64') }, hashNode), id)
    }
    t.match(await client.get('/api/audit/inclusion'), { status: 400 })
    t.match(await client.get('/api/audit/inclusion?id=aud_unknown'), { status: 404 })
    await as('a-wrong-token').get('/api/projects')
    const [open] = (await client.get('/api/audit?action=auth.login_failed')).body.items
    t.match(open, { seq: null })
    t.match(await client.get(`/api/audit/inclusion?id=${open.id}`), { status: 409, body: { code: 'not_sealed' } })
  })

  t.test('an export is verified without the server', async t => {
    const answer = await client.get('/api/audit/export')
    t.match(answer.headers, {
      'content-type': 'application/x-ndjson',
      'content-disposition': /^attachment; filename="svc-audit-.*\.jsonl"$/
    })
    t.match(verified(answer.text), { faults: [], removed: 0, omitted: 0 })
    t.match(answer.text, /"action":"audit\.export"/, 'the export is in the log')
    const part = await client.get('/api/audit/export?from=2&to=3')
    t.match(verified(part.text), { faults: [], entries: 2 })
    for (const query of ['?from=0', '?to=0', '?from=x', '?from=999', '?from=3&to=2'])
      t.match(await client.get(`/api/audit/export${query}`), { status: 400, body: { code: 'invalid_field' } }, query)
    t.match(await as(shop.token).get('/api/audit/export'), { status: 403 })
  })
})

t.test('each deployment is followed by a checkpoint that contains it, without being asked', async t => {
  const { client, createProject, as } = await startServer(t)
  const kept = join(t.testdir(), 'kept.notes')
  await client.put('/api/settings', { checkpoint_file: `>>${kept}` })
  const project = await createProject('site')
  const sizes = (): number[] =>
    existsSync(kept)
      ? [...readFileSync(kept, 'utf8').matchAll(/^svc\/\S+\n(\d+)\n/gm)].map(([, size]) => Number(size))
      : []
  for (const files of [{ a: '1' }, { a: '2' }]) {
    const file = { filename: 'a.zip', bytes: await zipOf(files) }
    await as(project.token).upload([
      ['projectId', project.id],
      ['file', file]
    ])
    const { seq } = (await client.get('/api/audit?action=deployment.upload&limit=1')).body.items[0] as { seq: number }
    await until(() => Math.max(0, ...sizes()) >= seq)
  }
  t.equal(sizes().length >= 2, true)
})

t.test('a named token reads its own entries, and an operator those of its projects, too', async t => {
  const { client, createProject, as } = await startServer(t)
  const [one, two] = [await createProject('one'), await createProject('two')]
  const mint = async (name: string, role: string, projectIds: string[]) =>
    as(((await client.post('/api/tokens', { name, role, projectIds })).body as { token: string }).token)
  const ana = await mint('ana', 'deployer', [one.id, two.id])
  const ben = await mint('ben', 'deployer', [one.id])
  const operator = await mint('olga', 'operator', [one.id])
  const push = async (from: typeof client, projectId: string) =>
    from.upload([
      ['projectId', projectId],
      ['file', { filename: 'a.zip', bytes: await zipOf({ a: projectId }) }]
    ])
  for (const [from, project] of [
    [ana, one],
    [ana, two],
    [ben, one]
  ] as const)
    await push(from, project.id)
  const seenBy = async (from: typeof client): Promise<string[]> => {
    const { items } = (await from.get('/api/audit?limit=500')).body as { items: Array<Record<string, string>> }
    return items.map(({ actor, action, projectId }) => `${actor} ${action} ${projectId === two.id ? 'two' : 'one'}`)
  }
  t.same(await seenBy(ana), ['token:ana deployment.upload two', 'token:ana deployment.upload one'])
  t.same(await seenBy(ben), ['token:ben deployment.upload one'])
  t.same(
    (await seenBy(operator)).filter(line => !line.startsWith('admin')),
    [
      'system deployment.end one',
      'token:ben deployment.upload one',
      'system deployment.end one',
      'token:ana deployment.upload one'
    ]
  )
  for (const from of [ana, operator]) t.equal((await from.get('/api/audit/export')).status, 403)
})
