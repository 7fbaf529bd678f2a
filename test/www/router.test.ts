import t from 'tap'
import { pathBelow, placeOf, type PageRow } from '../../www/router.js'

const rows: PageRow[] = ['', 'projects', 'projects/:id', 'projects/:id/settings', 'deployments/:id'].map(path => ({
  path,
  tag: 'x-page',
  room: null,
  load: async () => {}
}))

t.test('finds the page, the parameters and the query of an address', async t => {
  for (const [address, row, params] of [
    ['', '', {}],
    ['/', '', {}],
    ['projects', 'projects', {}],
    ['projects/', 'projects', {}],
    ['projects/proj_a', 'projects/:id', { id: 'proj_a' }],
    ['projects/proj_a/settings', 'projects/:id/settings', { id: 'proj_a' }],
    ['deployments/a%2Fb%20c', 'deployments/:id', { id: 'a/b c' }]
  ] as const) {
    const place = placeOf(rows, address, '?q=1')
    t.equal(place?.row.path, row, address)
    t.same(place?.params, params, address)
    t.equal(place?.query.get('q'), '1', address)
  }
})

t.test('returns null for an address without a page', async t => {
  for (const address of ['nothing', 'projects/a/b', 'deployments', 'deployments/%', 'deployments/%ff']) {
    t.equal(placeOf(rows, address, ''), null, address)
  }
})

t.test('an address is below the base only by whole segments and on the same origin', async t => {
  const base = 'https://host/tools/svc/'
  for (const [address, path] of [
    ['https://host/tools/svc/', ''],
    ['https://host/tools/svc', ''],
    ['https://host/tools/svc/projects/a', 'projects/a'],
    ['projects?q=1', 'projects'],
    ['https://host/tools/svc-old/projects', null],
    ['https://host/tools/', null],
    ['https://host/', null],
    ['https://elsewhere/tools/svc/projects', null],
    ['//elsewhere/tools/svc/', null],
    ['../other', null],
    ['javascript:alert(1)', null]
  ] as const) {
    t.equal(pathBelow(base, address)?.path ?? null, path, address)
  }
  t.equal(pathBelow(base, 'projects?q=1')?.search, '?q=1')
  t.equal(pathBelow('https://host/', 'https://host/projects')?.path, 'projects', 'at the root')
})
