import { readdirSync } from 'node:fs'
import t from 'tap'
import { eventsOf } from '../support/client.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'

const commit = '0123456789abcdef0123456789abcdef01234567'
const claim = {
  source: 'cli',
  commit,
  branch: 'feature/prices',
  tag: 'v2',
  author: 'Ada',
  subject: 'Lower the prices',
  dirty: false,
  repository: 'https://ci:hunter2@git.test/team/shop.git',
  by: null,
  ci: { system: 'Woodpecker', run: '7', url: 'https://ci.test/7', actor: 'ada' }
}
const kept = { ...claim, repository: 'https://git.test/team/shop.git' }

t.test('provenance is sent, stored, filtered and linked', async t => {
  const stage = await startServer(t)
  const { client, as, home } = stage
  const shop = await stage.createProject('shop')
  const other = await stage.createProject('other')
  const file = { filename: 'a.zip', bytes: await zipOf({ 'index.html': 'x' }) }
  const push = async (provenance: string | null, project = shop) => {
    const fields: Array<[string, string]> = provenance === null ? [] : [['provenance', provenance]]
    return await as(project.token).upload([['projectId', project.id], ...fields, ['file', file]])
  }
  const idOf = (reply: Awaited<ReturnType<typeof push>>): string => String(eventsOf(reply).at(-1)?.deployId)

  const first = idOf(await push(JSON.stringify(claim)))
  const plain = idOf(await push(null))
  const blank = idOf(await push(' '))
  const main = idOf(await push(JSON.stringify({ branch: 'main', commit: 'f'.repeat(40) }), other))

  await t.test('the record contains it for every caller with access', async t => {
    t.strictSame((await client.get(`/api/logs/${first}`)).body.provenance, kept)
    t.strictSame((await as(shop.token).get(`/api/logs/${first}?output=end`)).body.provenance, kept)
    t.equal((await client.get(`/api/logs/${plain}`)).body.provenance, null)
    t.equal((await client.get(`/api/logs/${blank}`)).body.provenance, null)
    await stage.restart()
    t.strictSame(
      (await client.get('/api/logs?output=none')).body.map((row: { provenance: unknown }) => row.provenance !== null),
      [true, false, false, true]
    )
  })

  await t.test('lists can be filtered by branch and by commit', async t => {
    const cases: Array<[query: string, ids: string[]]> = [
      ['branch=feature/prices', [first]],
      ['branch=feature', []],
      ['branch=main', [main]],
      ['commit=0123', [first]],
      [`commit=${commit.toUpperCase()}`, [first]],
      ['commit=ffff', [main]],
      ['commit=0124', []],
      [`commit=ffff&projectId=${shop.id}`, []],
      ['branch=main&commit=ffff&status=success', [main]],
      ['branch=main&commit=0123', []],
      ['branch=', [main, blank, plain, first]],
      ['newest=1', [main, blank]],
      [`newest=1&projectId=${shop.id}`, [blank]],
      ['newest=0&branch=main', [main]]
    ]
    for (const [query, ids] of cases) {
      const { body, headers } = await client.get(`/api/logs?output=none&${query}`)
      t.strictSame(
        body.map(({ id }: { id: string }) => id),
        ids,
        query
      )
      t.equal(headers['x-total-count'], String(ids.length), query)
    }
    for (const digits of ['012', 'xyz1', '%', "0123'", '0'.repeat(65)]) {
      const reply = await client.get(`/api/logs?commit=${encodeURIComponent(digits)}`)
      t.match(reply, { status: 400, body: { field: 'commit' } }, digits)
    }
  })

  await t.test('a rollback has the provenance of its source', async t => {
    const { body } = await client.post(`/api/deployments/${first}/rollback`, { message: 'Prices were wrong' })
    const record = (await client.get(`/api/logs/${body.deployId}`)).body
    t.strictSame(record.provenance, kept)
    t.match(record, { rollbackOf: first, message: 'Prices were wrong' })
  })

  await t.test('refuses an invalid value with the name of its field, and keeps no file', async t => {
    const cases: Array<[string, string, RegExp]> = [
      ['{', 'provenance', /not valid JSON/],
      ['"main"', 'provenance', /"provenance" is "main": expected an object/],
      ['[]', 'provenance', /expected an object/],
      ['{"branch": 5}', 'provenance.branch', /"provenance.branch" is a number: expected a string/],
      ['{"commit": "main"}', 'provenance.commit', /hexadecimal/],
      ['{"subject": "a\\nb"}', 'provenance.subject', /U\+000A/],
      ['{"ci": {"system": "x", "url": "javascript:1"}}', 'provenance.ci.url', /http/],
      [JSON.stringify({ filler: 'ü'.repeat(8 * 1024) }), 'provenance', /too long: \d+ bytes, at most 16384/]
    ]
    for (const [given, field, error] of cases) {
      t.match(await push(given), { status: 400, body: { field, error } }, given.slice(0, 60))
    }
    t.same(readdirSync(home.tmp), [])
    t.match(
      eventsOf(await push(`{"filler": "${'x'.repeat(16_000)}"}`)).at(-1),
      { status: 'success' },
      'unknown keys are ignored'
    )
  })

  await t.test('commit_url decides the URL of a commit', async t => {
    t.equal(
      (await client.get(`/api/logs/${first}`)).body.commitUrl,
      undefined,
      'nobody has said where git.test shows commits'
    )
    await client.put('/api/settings', { commit_url: 'https://git.test/{repository}/c/{commit}' })
    const address = `https://git.test/team/shop/c/${commit}`
    t.equal((await client.get(`/api/logs/${first}`)).body.commitUrl, address)
    t.equal((await client.get('/api/logs?commit=0123&output=none')).body.at(-1).commitUrl, address)
    t.equal((await client.get('/api/logs?commit=0123')).body.at(-1).commitUrl, address)
  })
})
