/* The log files of projects, and what may be read of the disk. It is loaded when somebody looks at a file (base/async.ts). */
import type { Activity } from '../base/async.js'
import { createPlaces } from '../operate/machine/places.js'
import { createInflatedFiles } from '../operate/logs/read/contents.js'
import { createDeny, createOpenLog, createSecrets } from '../operate/logs/read/open.js'
import { createSearches, type Searches } from '../operate/logs/search/search.js'
import { createLogSources } from '../operate/logs/sources.js'
import { FileWatcher } from '../operate/logs/tail/watch.js'
import { createLogViewer, type LogViewer, newLogLines } from '../operate/logs/viewer.js'
import type { Projects } from '../projects/projects.js'
import type { Front } from './front.js'
import type { World } from './world.js'

/** The log services of a server. */
export type Logs = ReturnType<typeof createLogs>

interface LogNeeds {
  /** The directories with secrets of svc, by all their names, as they were at the start. */
  homes: readonly string[]
  audit: Front['audit']
  projects: Pick<Projects, 'get'>
  /** Counts the followers of files, and the searches. */
  followers: Activity
  searches: Activity
}

/** Creates the log services: the deny list, the registered log files, and the viewer. */
export function createLogs(world: World, { homes, audit, projects, followers, searches }: LogNeeds) {
  const { home, clock, store, secretFiles = [] } = world
  const guarded = { deny: createDeny(homes), homes, secrets: [home.configFile, ...secretFiles] }
  const secrets = createSecrets(guarded)
  const openLog = createOpenLog(guarded, secrets)
  const counted = countedSearches(searches)
  const plain = createLogViewer({
    openLog,
    clock,
    inflated: createInflatedFiles({ tmp: home.tmp }),
    watcher: new FileWatcher(),
    searches: counted
  })
  const viewer: LogViewer = { ...plain, follow: (...given) => followers.during(() => plain.follow(...given)) }
  return {
    secrets,
    places: createPlaces(secrets),
    sources: createLogSources({ ...world, audit, openLog, checkProject: id => void projects.get(id) }),
    viewer,
    newLines: (query: Parameters<typeof newLogLines>[2]) => newLogLines(store, viewer, query),
    firstMatch: counted.firstMatch
  }
}

/** Returns searches that count themselves in `activity`. */
function countedSearches(activity: Activity): Searches {
  const searches = createSearches()
  return { ...searches, run: (...given) => activity.during(() => searches.run(...given)) }
}
