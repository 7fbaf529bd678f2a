import t from 'tap'
import { createIgnore, rootVerdict } from '../../../lib/archive/walk.js'
import { builtinIgnore, neverPushed } from '../../../lib/shared/tree-text.js'
import { isLeftOut, isNeverPacked } from '../../../www/archive/left-out.js'

/** What `svc push` says of a path, walked from the root. */
function isIgnored(path: string, builtin = true): boolean {
  const ignore = createIgnore({ builtin, project: [], cli: [], never: neverPushed })
  const segments = path.split('/')
  return segments.reduce(
    (verdict, _, depth) => ignore.judge(segments.slice(0, depth + 1).join('/'), depth < segments.length - 1, verdict),
    rootVerdict
  ).isIgnored
}

t.test('the panel leaves out what svc push leaves out', async t => {
  const names = [
    ...builtinIgnore.map(name => name.replace('*', 'x')),
    '.next/standalone/node_modules',
    '.next/standalone/.next',
    '.output/server/node_modules',
    '.git',
    'node_modules',
    '.next',
    '.nuxt',
    '.turbo',
    '.cache',
    '.vite',
    'coverage',
    '.DS_Store',
    'npm.log',
    '.log',
    'a.log.txt',
    '.env',
    '.env.local',
    '.environment',
    'environment',
    '.deploy-archive.zip',
    'deploy-archive.zip',
    'src',
    '.gitignore',
    'Coverage',
    '.ENV',
    'log',
    'svc.config.json',
    'svc.config.live.json',
    'svc.config.json.txt',
    'my.svc.config.json',
    'svc.configs.json'
  ]
  const paths = names.flatMap(name => [name, `${name}/x`, `src/${name}`, `src/${name}/x`, `src/a/${name}/x/y`])
  for (const path of paths) {
    t.equal(isLeftOut(path), isIgnored(path), path)
    t.equal(isNeverPacked(path), isIgnored(path, false), `${path}, without the built-in rules`)
  }
})
