import t from 'tap'
import { createIgnore, rootVerdict } from '../../../lib/archive/ignore.js'
import { isLeftOut } from '../../../www/archive/left-out.js'

/** What `svc push` says of a path, walked from the root. */
function isIgnored(path: string): boolean {
  const ignore = createIgnore({ builtin: true, project: [], cli: [] })
  const segments = path.split('/')
  return segments.reduce((verdict, _, depth) =>
    ignore.judge(segments.slice(0, depth + 1).join('/'), depth < segments.length - 1, verdict), rootVerdict).isIgnored
}

t.test('the panel leaves out what svc push leaves out', async t => {
  const names = [
    '.git', 'node_modules', '.next', '.nuxt', '.turbo', '.cache', '.vite', 'coverage', '.DS_Store', 'npm.log', '.log',
    'a.log.txt', '.env', '.env.local', '.environment', 'environment', '.deploy-archive.zip', 'deploy-archive.zip', 'src',
    '.gitignore', 'Coverage', '.ENV', 'log'
  ]
  const paths = names.flatMap(name => [name, `${name}/x`, `src/${name}`, `src/${name}/x`, `src/a/${name}/x/y`])
  for (const path of paths) t.equal(isLeftOut(path), isIgnored(path), path)
})
