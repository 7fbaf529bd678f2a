import t from 'tap'
import { pageTable } from '../../www/router.js'
import * as links from '../../lib/model/links.js'

t.test('each page is below the public address with its prefix, and null without an address', async t => {
  const { deploymentPage, rolloutPage, projectPage, nodePage, tokensPage, storagePage, systemPage } = links
  const prefix = 'https://deploy.example/svc'
  t.equal(deploymentPage(prefix, 'dep_a'), `${prefix}/deployments/dep_a`)
  t.equal(deploymentPage('https://deploy.example', 'a/b'), 'https://deploy.example/deployments/a%2Fb')
  t.equal(rolloutPage(prefix, 'ro_a'), `${prefix}/rollouts/ro_a`)
  t.equal(projectPage(prefix, 'proj_a'), `${prefix}/projects/proj_a`)
  t.equal(nodePage(prefix, 'node_a'), `${prefix}/nodes/node_a`)
  t.same(
    [tokensPage, storagePage, systemPage].map(page => page(prefix)),
    [`${prefix}/access`, `${prefix}/storage`, `${prefix}/system`]
  )
  t.same(
    [deploymentPage, rolloutPage, projectPage, nodePage].map(page => page(null, 'a')),
    [null, null, null, null]
  )
  t.same(
    [tokensPage, storagePage, systemPage].map(page => page(null)),
    [null, null, null]
  )
})

t.test('each page exists in the panel', async t => {
  const paths = ['deployments/:id', 'rollouts/:id', 'projects/:id', 'nodes/:node', 'access', 'storage', 'system']
  const known = new Set(pageTable.map(({ path }) => path))
  t.same(
    paths.filter(path => !known.has(path)),
    []
  )
})
