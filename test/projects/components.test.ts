import t from 'tap'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createComponents } from '../../lib/projects/components.js'
import type { DeploymentRow } from '../../lib/model/deployment.js'
import type { PlacedRelease } from '../../lib/model/node.js'
import type { Project } from '../../lib/model/project.js'

const never = new AbortController().signal

function listOf(count: number, prefix: string): string {
  const components = Array.from({ length: count }, (_, at) => ({ name: `${prefix}-${at}`, version: `1.${at}.0` }))
  return JSON.stringify({ bomFormat: 'CycloneDX', specVersion: '1.5', components })
}

/** A search over projects p0, p1 … whose live deployments have these lists; null: none. */
function stage(lists: Array<string | null>, placed: Record<string, PlacedRelease[]> = {}) {
  const directory = mkdtempSync(join(tmpdir(), 'svc-components-'))
  lists.forEach((list, at) => {
    if (list !== null) writeFileSync(join(directory, `dep_${at}`), list)
  })
  const row = (at: number, more: Partial<DeploymentRow> = {}) =>
    ({
      id: `dep_${at}`,
      endTime: '2026-11-30T00:00:00.000Z',
      treeSha256: 'a',
      rollbackOf: null,
      promotedFrom: null,
      ...more
    }) as DeploymentRow
  const projects = lists.map((_, at) => ({ id: `p${at}`, name: `shop ${at}`, deployPath: `/srv/${at}` }) as Project)
  const live = new Map(projects.map(({ id }, at) => [id, row(at)]))
  const components = createComponents({
    store: { prepare: () => ({ get: () => undefined, all: () => [] }) } as never,
    sbomOf: id => join(directory, id),
    liveDeployment: id => live.get(id),
    releasesOnNodes: id => placed[id] ?? []
  })
  return { components, projects, live, row }
}

t.test('a component is found in every release in place, and projects without a list are named', async t => {
  const { components, projects } = stage([listOf(3, 'log4j'), null, listOf(2, 'zlib'), 'torn'])
  const found = await components.search(projects, { name: 'log4j-1' }, never)
  t.match(found, { searched: 2, truncated: false })
  t.match(found.components, [
    { projectId: 'p0', projectName: 'shop 0', deployId: 'dep_0', target: '/srv/0', name: 'log4j-1', version: '1.1.0' }
  ])
  t.same(
    found.unknown.map(({ projectId }) => projectId),
    ['p1', 'p3']
  )
  t.same((await components.search(projects, { name: 'log4j', version: '9' }, never)).components, [])
})

t.test('an answer is limited, and a search can be given up', async t => {
  const { components, projects } = stage([listOf(5000, 'log4j')])
  const found = await components.search(projects, { name: 'log4j' }, never)
  t.match(found, { truncated: true })
  t.equal(found.components.length, 1000)
  await t.rejects(components.search(projects, { name: 'log4j' }, AbortSignal.abort(new Error('given up'))), /given up/)
})

t.test('two hundred lists of 10,000 components are searched, and others get their turn', async t => {
  const { components, projects } = stage(Array.from({ length: 200 }, (_, at) => listOf(10_000, `c${at}`)))
  let turns = 0
  let longestMs = 0
  let last = performance.now()
  const timer = setInterval(() => {
    longestMs = Math.max(longestMs, performance.now() - last)
    last = performance.now()
    turns++
  }, 1)
  const from = performance.now()
  const found = await components.search(projects, { name: 'c199-9999' }, never)
  clearInterval(timer)
  t.match(found.components, [{ projectId: 'p199' }])
  t.comment(`${Math.round(performance.now() - from)} ms, ${turns} turns, longest ${Math.round(longestMs)} ms`)
  t.ok(turns > 50)
})

t.test('more than a few searches at a time are refused', async t => {
  const { components, projects } = stage([listOf(10, 'a')])
  const all = await Promise.allSettled(
    Array.from({ length: 12 }, () => components.search(projects, { name: 'a' }, never))
  )
  const refused = all.filter(each => each.status === 'rejected')
  t.equal(refused.length, 3)
  t.match(refused[0], { reason: { code: 'search_busy' } })
})
