import t, { type Test } from 'tap'
import { createServer } from 'node:http'
import {
  askForOwnNames,
  exposureFinding,
  fleetFindings,
  tokenFindings,
  sharedNameFindings,
  userFindings
} from '../../../lib/cli/doctor/findings.js'
import type { ReportedProject, ReportedToken } from '../../../lib/model/access.js'
import type { ListedNode } from '../../../lib/model/node.js'
import { aToken } from '../../support/a-token.js'
import { startFleet } from '../../support/fleet-on-server.js'
import { urlOf } from '../../support/on-loopback.js'

const project = (name: string, fields: Partial<ReportedProject> = {}): ReportedProject => {
  return { id: `proj_${name}`, name, clientScripts: true, runAs: null, tokenIds: [], ...fields }
}

t.test('names the projects that have no user of their own', async t => {
  t.same(userFindings({ projects: [] }), [])
  t.match(userFindings({ projects: [project('a', { runAs: 'shop' })] }), [{ result: 'pass', advice: null }])
  const mixed = [project('a', { runAs: 'shop' }), project('b'), project('c', { clientScripts: false })]
  t.match(userFindings({ projects: mixed }), [
    { result: 'warning', detail: 'without runAs: "b", "c"', advice: /svc projects set <project> --run-as/ }
  ])
  t.match(userFindings({ projects: [project('c', { clientScripts: false })] }), [
    { result: 'pass', detail: /"c"; no push/ }
  ])
  const many = Array.from({ length: 12 }, (_, index) => project(`p${index}`))
  t.match(userFindings({ projects: many }), [{ detail: /"p9", and 2 more$/ }])
})

function reported(patch: Partial<ReportedToken>): ReportedToken {
  return { ...aToken(), daysLeft: 60, secretDays: 30, advice: [], ...patch }
}

t.test('says nothing on a server without named tokens, and passes if there is no advice', async t => {
  t.same(tokenFindings({ tokens: [], rotateDays: 0 }), [])
  t.same(tokenFindings({ tokens: [reported({}), reported({ name: 'b' })], rotateDays: 0 }), [
    { check: 'Named tokens', result: 'pass', detail: '2 valid', advice: null }
  ])
})

t.test('warns about tokens that expire soon, are unused, or have an old secret', async t => {
  const findings = tokenFindings({
    tokens: [
      reported({ name: 'soon', daysLeft: 1, advice: ['expires_soon'] }),
      reported({ name: 'old', daysLeft: 9, secretDays: 100, advice: ['expires_soon', 'unused', 'rotate'] })
    ],
    rotateDays: 90
  })
  t.match(findings, [
    { result: 'warning', detail: '"soon" expires in 1 day, "old" expires in 9 days', advice: 'svc token rotate' },
    { result: 'warning', detail: '"old" was not used for 90 days', advice: 'svc token revoke' },
    {
      result: 'warning',
      detail: '"old" has a secret of 100 days (token_rotate_days is 90)',
      advice: 'svc token rotate'
    }
  ])
})

t.test('names ten tokens', async t => {
  const tokens = Array.from({ length: 12 }, (_, index) => reported({ name: `t${index}`, advice: ['unused'] }))
  const [finding] = tokenFindings({ tokens, rotateDays: 0 })
  t.match(finding?.detail, /"t9" was not used for 90 days, and 2 more$/)
})

const node = (name: string, given: Partial<ListedNode> = {}): ListedNode =>
  ({ name, isConnected: true, isDrained: false, placements: [], ...given }) as ListedNode

t.test('nodes that are lost or drifted are warnings; drained ones are not', async t => {
  t.same(fleetFindings([]), [])
  t.match(fleetFindings([node('web-1'), node('web-2', { isConnected: false, isDrained: true })]), [
    { result: 'pass', detail: '1 of 2 nodes connected' }
  ])
  const drifted = node('web-3', { placements: [{ isDrifted: true }] as ListedNode['placements'] })
  t.match(fleetFindings([node('web-2', { isConnected: false }), drifted]), [
    { result: 'warning', detail: 'not connected: web-2' },
    { result: 'warning', detail: 'not as rolled out: web-3' }
  ])
  t.match(fleetFindings([node('web-1'), node('web-4', { isOutdated: true })]), [
    { result: 'warning', detail: /^older agents.*: web-4$/, advice: /Upgrade svc there/ }
  ])
  t.match(fleetFindings([node('web-5', { sharedSince: '2030-01-01T00:00:00.000Z' })]), [
    { result: 'warning', detail: /^two machines use the identity of one node.*: web-5$/, advice: /Stop one of them/ }
  ])
  const many = Array.from({ length: 12 }, (_, at) => node(`n${at}`, { isConnected: false }))
  t.match(fleetFindings(many), [{ detail: /n9, and 2 more$/ }])
})

t.test('svc doctor asks a real server', async t => {
  const { run } = await startFleet(t, ['web-1'])
  // The agents of this stage speak the protocol of before.
  t.match((await run('doctor')).stdout, /Fleet: older agents, which do not notice recorded orders: web-1/)
})

/** A site that answers with the status that `statusOf` returns for a path. Returns its address and the asked paths. */
async function startSite(t: Test, statusOf: (path: string) => number): Promise<{ url: string; asked: string[] }> {
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(request.url as string)
    response.writeHead(statusOf(request.url as string)).end()
  })
  return { url: await urlOf(t, server), asked }
}

const options = { hosts: [], signal: new AbortController().signal }

t.test('only a difference between own names and another missing name proves a rule', async t => {
  const cases: Array<[own: number[], other: number, result: string]> = [
    [[403, 403], 404, 'pass'],
    [[404, 404], 200, 'pass'],
    [[410, 404], 302, 'pass'],
    [[404, 404], 404, 'warning'],
    [[403, 403], 403, 'warning'],
    [[200, 200], 200, 'warning'],
    [[403, 404], 404, 'warning'],
    [[401, 401], 404, 'warning'],
    [[503, 503], 503, 'warning'],
    [[200, 200], 404, 'warning']
  ]
  for (const [own, other, result] of cases) {
    const answers = own.map(status => ({ status, body: '' }))
    const found = exposureFinding('http://a/', answers, { status: other, body: '' })
    t.equal(found.result, result, `${own} ${other}`)
    t.equal(found.advice === null, result === 'pass')
  }
})

t.test('a site is asked below its path, for names that nobody can guess', async t => {
  const { url, asked } = await startSite(t, path => (path.includes('/.svc-') ? 403 : 404))
  t.match(await askForOwnNames(`${url}/shop?a=1#b`, options), { result: 'pass', advice: null })
  await askForOwnNames(`${url}/shop/`, options)
  const pattern = /^\/shop\/(svc-none-|\.svc-staging-|\.svc-displaced-)([0-9a-f]{16})\/a$/
  const found = asked.map(path => pattern.exec(path))
  t.same(
    found.map(match => match?.[1]),
    ['svc-none-', '.svc-staging-', '.svc-displaced-', 'svc-none-', '.svc-staging-', '.svc-displaced-']
  )
  t.equal(new Set(found.map(match => match?.[2])).size, 2)
})

t.test('a rule for one of the names only is not enough', async t => {
  const { url } = await startSite(t, path => (path.includes('/.svc-staging-') ? 403 : 404))
  t.match(await askForOwnNames(url, options), { result: 'warning', detail: /403 and 404/, advice: /maintenance\.md/ })
})

t.test('other hosts are not asked, and a silent one is a warning', async t => {
  const foreign = await askForOwnNames('http://192.0.2.1/', options)
  t.match(foreign, { result: 'warning', detail: /not checked: .*gate_hosts/, advice: /gate_hosts/ })
  t.match(await askForOwnNames('http://127.0.0.1:1/', options), { result: 'warning', detail: /connection refused/ })
})

t.test('a name that several projects have is a warning with their ids', async t => {
  const named = (id: string, name: string) => ({ ...project(name, {}), id })
  t.same(sharedNameFindings({ projects: [named('proj_a', 'shop'), named('proj_b', 'wiki')] }), [])
  t.match(sharedNameFindings({ projects: [named('proj_a', 'shop'), named('proj_b', 'Shop')] }), [
    { result: 'warning', detail: '"shop" is the name of proj_a, proj_b', advice: /svc projects set <id> --name/ }
  ])
})
