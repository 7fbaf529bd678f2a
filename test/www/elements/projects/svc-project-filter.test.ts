import '../../../support/without-dom.js'
import t from 'tap'
import { type Label, newProject, type Project } from '../../../../lib/model/project.js'
import { createProjectIndex, filterOf, queryOf } from '../../../../www/elements/projects/project-filter.js'

const label = (id: string, name: string): Label => ({
  id,
  name,
  color: 'blue',
  sortOrder: 0,
  projectCount: 0,
  createdAt: '',
  updatedAt: ''
})

function project(name: string, given: Partial<Project> = {}): Project {
  const made = newProject({ name, deployPath: `/srv/${name}` }, { id: name, token: '', at: '2026-01-01' })
  return { ...made, updatedAt: '', ...given }
}

const index = createProjectIndex(
  [
    project('shop 10', { env: 'staging', tagIds: ['t1', 't2'], lastDeployAt: '2026-03-01', status: 'success' }),
    project('shop 9', { categoryId: 'c1', tagIds: ['t1'], description: 'The Storefront', status: 'failed' }),
    project('API', { pinned: true, createdAt: '2025-01-01', lastDeployAt: '2025-02-01', status: 'running' }),
    project('blog', { createdAt: '2026-02-01' })
  ],
  [label('c1', 'Customers'), label('t1', 'node'), label('t2', 'eu-west')]
)

t.test('finds projects by words, labels, environment and status', async t => {
  const cases: Array<[query: string, names: string]> = [
    ['', 'API, shop 10, blog, shop 9'],
    ['sort=name', 'API, blog, shop 9, shop 10'],
    ['sort=created', 'API, blog, shop 10, shop 9'],
    ['sort=nothing', 'API, shop 10, blog, shop 9'],
    ['q=SHOP', 'shop 10, shop 9'],
    ['q=shop+storefront', 'shop 9'],
    ['q=srv/blog', 'blog'],
    ['q=eu-', 'shop 10'],
    ['q=custom', 'shop 9'],
    ['category=c1', 'shop 9'],
    ['category=none', 'API, shop 10, blog'],
    ['tags=t1', 'shop 10, shop 9'],
    ['tags=t1,t2', 'shop 10'],
    ['env=staging', 'shop 10'],
    ['status=running', 'API'],
    ['status=sleeping', 'API, shop 10, blog, shop 9'],
    ['q=shop&status=failed&tags=t2', '']
  ]
  for (const [query, names] of cases) {
    const found = index.find(filterOf(new URLSearchParams(query)))
    t.equal(found.map(({ name }) => name).join(', '), names, query)
  }
  t.same(index.environments, ['production', 'staging'])
})

t.test('writes the filter to the address without default values', async t => {
  const cases = [
    '',
    'q=a+b',
    'category=none',
    'tags=t1%2Ct2',
    'q=x&category=c1&tags=t1&env=staging&status=failed&sort=name&view=families'
  ]
  for (const query of cases) t.equal(queryOf(filterOf(new URLSearchParams(query))).toString(), query)
  t.equal(queryOf(filterOf(new URLSearchParams('sort=deployed&status=odd&new=1'))).toString(), '')
})

t.test('filters ten thousand projects within two frames', async t => {
  const many = Array.from({ length: 10_000 }, (_, at) =>
    project(`service ${at % 977} of ${at}`, { tagIds: at % 3 ? ['t1'] : [] })
  )
  const large = createProjectIndex(many, [])
  large.find(filterOf(new URLSearchParams('sort=name')))
  const beganMs = performance.now()
  const found = large.find(filterOf(new URLSearchParams('q=service+97&tags=t1&sort=name')))
  t.comment(`${found.length} found in ${(performance.now() - beganMs).toFixed(1)} ms`)
  t.ok(found.length > 100)
})
