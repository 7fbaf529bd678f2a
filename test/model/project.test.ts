import { readFileSync } from 'node:fs'
import t from 'tap'
import {
  changesCommands,
  newProject,
  normalDirectory,
  projectReaders,
  scriptDirectoryFault,
  scriptShellFault,
  namesOf,
  warningOfUsers,
  withoutUser
} from '../../lib/model/project.js'
import { projectFields } from '../../lib/model/project-fields.js'
import { runsCommand } from '../../lib/base/shared/api.js'
import { aProject } from '../core/store/stage.js'

const given = { name: 'Shop', deployPath: '/srv/shop' }
const project = newProject(given, { id: 'proj_a', token: 'token', at: '2030-01-01T00:00:00.000Z' })

t.test('a new project has the defaults, and a reader for each of its fields', async t => {
  t.match(project, { ...given, env: 'production', policy: {}, runAs: null, status: 'idle', tagIds: [] })
  const { components } = JSON.parse(readFileSync(new URL('../../../docs/openapi.json', import.meta.url), 'utf8')) as {
    components: { schemas: { Project: { properties: object } } }
  }
  const described = Object.keys(components.schemas.Project.properties).sort()
  t.same(Object.keys(projectReaders.fields).sort(), described, 'as the API describes them')
  t.same(Object.keys(project).sort(), described)
})

t.test('shells', async t => {
  for (const shell of ['sh', 'bash', '/bin/zsh', '/opt/a b/sh']) t.equal(scriptShellFault(shell), null, shell)
  for (const shell of ['zsh', './sh', 'bin/sh', '/', '/bin/', 'bash -x'])
    t.match(scriptShellFault(shell), /neither "sh", "bash" nor/, shell)
  t.match(scriptShellFault('/bin/\nsh'), /invisible/)
  t.match(scriptShellFault(`/${'x'.repeat(4096)}`), /longer/)
})

t.test('checks working directories', async t => {
  for (const [given, kept] of [
    ['apps/web', 'apps/web'],
    ['./apps//web/', 'apps/web'],
    ['.', null],
    ['..x', '..x'],
    ['a\\b', 'a/b']
  ] as const) {
    t.equal(scriptDirectoryFault(given), null, given)
    t.equal(normalDirectory(given), kept, given)
  }
  for (const [given, why] of [
    ['/srv', /not relative/],
    ['..', /leaves the target/],
    ['a/../../b', /leaves the target/],
    ['a\\..\\b', /leaves the target/],
    ['a\0', /invisible/]
  ] as const) {
    t.match(scriptDirectoryFault(given), why, JSON.stringify(given))
  }
})

t.test('a deployment runs a command if any script or check of its does', async t => {
  const project = aProject({ preDeployScript: '', postDeployScript: ' \n', policy: {} })
  t.equal(runsCommand(project), false)
  t.equal(runsCommand(project, { preDeploy: '', postDeploy: null }), false)
  t.equal(runsCommand(project, { preDeploy: 'id' }), true)
  t.equal(runsCommand(project, { postDeploy: 'id' }), true)
  t.equal(runsCommand({ ...project, preDeployScript: 'npm ci' }), true, 'it may run what was uploaded')
  t.equal(runsCommand({ ...project, postDeployScript: 'npm ci' }), true)
  const gate = { interval: 1, timeout: 5, deadline: 30, successes: 1, stableFor: 0, onFailure: 'revert' } as const
  t.equal(runsCommand({ ...project, policy: { gate: { ...gate, after: [{ tcp: '127.0.0.1:80' }] } } }), false)
  t.equal(runsCommand({ ...project, policy: { gate: { ...gate, after: [{ command: 'id' }] } } }), true)
})

t.test('a change of a project decides what runs, except for these fields', async t => {
  const project = aProject({ policy: { drift: 'refuse' } })
  const harmless = ['name', 'description', 'env', 'categoryId', 'tagIds', 'scriptTimeoutSeconds', 'maxDiskMb', 'pinned']
  for (const key in projectFields) {
    const value = key === 'policy' ? { drift: 'off' } : 'something else'
    t.equal(changesCommands(project, { [key]: value }), !harmless.includes(key), key)
    t.equal(changesCommands(project, { [key]: undefined }), false, `${key} is absent`)
    const same = (project as unknown as Record<string, unknown>)[key]
    if (same !== undefined) t.equal(changesCommands(project, { [key]: same }), false, `${key} keeps its value`)
  }
  t.equal(changesCommands(project, { policy: { drift: null } }), true, 'the default again')
  t.equal(changesCommands(project, { policy: { prune: null, gate: null } }), false, 'the default is what it has')
  t.equal(changesCommands(project, {}), false)
})

const userProject = (name: string, runAs: string | null = null) => ({ name, runAs })

t.test('names the projects that have no user of their own', async t => {
  const mixed = [userProject('a', 'shop'), userProject('b'), userProject('c\nd')]
  t.same(withoutUser(mixed), mixed.slice(1))
  t.match(warningOfUsers(mixed), /as root, [^]*: "b", "c.*d"\. Set one/)
  t.notMatch(warningOfUsers(mixed), /\n|"a"/)
  t.equal(warningOfUsers([userProject('a', 'shop')]), null)
  t.equal(warningOfUsers([]), null)
  t.match(namesOf(Array.from({ length: 12 }, (_, index) => userProject(`p${index}`))), /"p9", and 2 more$/)
})
