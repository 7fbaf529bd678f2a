/*
 * A plain model of a target and of what svc knows about it: files by path, without any disk. It says what a deployment, a
 * prune, an undo and an exact rollback must do, so that random histories can be compared with the real thing.
 */

/** A file or a link. Times are in microseconds since 1970. */
export interface ModelEntry {
  type: 'file' | 'link'
  text: string
  /** Permission bits; 0o777 for a link. */
  mode: number
  timeUs: number
  /** Whether the script of a deployment made its contents: they are in no archive. */
  isScripted?: true
}

/** An entry of an archive. Its time is in whole seconds. */
export interface ArchiveItem {
  path: string
  type: 'file' | 'link' | 'directory'
  text: string
  mode: number
  timeUs: number
}

interface OwnedEntry extends ModelEntry {
  since: string
}

/** What was at a path before a deployment, and where its contents are kept. */
interface Earlier {
  before: ModelEntry | { directory: number } | null
  source: string
  /** What the deployment put there; null if it removed it, and for a directory. */
  after: ModelEntry | null
}

interface Placed {
  id: string
  changes: Map<string, Earlier>
}

/** Why a step fails without any change. */
export type Failure = 'in the way' | 'emptied' | 'drifted' | 'not exact' | 'nothing to undo'

/** The policy of a project as far as the model knows it. */
export interface ModelPolicy {
  drift: 'warn' | 'refuse'
  prune: boolean
  /** A path prefix that is protected. */
  protect: string | null
  /** Whether this deployment removes what svc did not put there, too. */
  isClean?: true
}

const own = 'own archive'
const ofScript = 'copy of what a script made'

/** A target with its history. */
export class TargetModel {
  readonly files = new Map<string, ModelEntry>()
  /** Permission bits by path. */
  readonly directories = new Map<string, number>()
  readonly owned = new Map<string, OwnedEntry>()
  readonly ownedDirectories = new Set<string>()
  readonly placed: Placed[] = []
  /** Deployments whose archive somebody removed. */
  readonly lostArchives = new Set<string>()
  /** Those that svc has removed itself: it copies what it replaces of them from then on. */
  readonly deletedArchives = new Set<string>()

  /** Returns an independent copy. */
  copy(): TargetModel {
    const copy = new TargetModel()
    for (const [path, entry] of this.files) copy.files.set(path, { ...entry })
    for (const [path, mode] of this.directories) copy.directories.set(path, mode)
    for (const [path, entry] of this.owned) copy.owned.set(path, { ...entry })
    for (const path of this.ownedDirectories) copy.ownedDirectories.add(path)
    for (const { id, changes } of this.placed) copy.placed.push({ id, changes: new Map(changes) })
    for (const id of this.lostArchives) copy.lostArchives.add(id)
    for (const id of this.deletedArchives) copy.deletedArchives.add(id)
    return copy
  }

  /** A deployment of these items, or an overlay. Changes nothing if it fails. */
  deploy(id: string, items: readonly ArchiveItem[], policy: ModelPolicy): Failure | null {
    const ways = this.#waysOf(items)
    const given = [...this.owned.keys()].filter(path => ways.some(way => isAtOrBelow(way, path)))
    const isProtected = (path: string): boolean =>
      policy.prune && policy.protect !== null && `${path}/`.startsWith(policy.protect)
    if (given.some(path => this.files.has(path) && isProtected(path))) return 'in the way'
    const files = items.filter(item => item.type !== 'directory')
    const isLost = (path: string): boolean => this.#isEdited(path) && this.files.has(path)
    const isOfOthers = (path: string): boolean => !this.owned.has(path) || this.#isEdited(path)
    const loses = given.some(isLost) || files.some(item => isOfOthers(item.path) && this.#replaces(item))
    const named = new Set(items.flatMap(({ path }) => [path, ...parentsOf(path)]))
    const foreign = policy.isClean ? this.#foreign(named, policy.protect) : []
    if (policy.drift === 'refuse' && (loses || foreign.length > 0)) return 'drifted'
    if (this.#isBlocked(ways)) return 'in the way'
    const changes = new Map<string, Earlier>()
    const earlier = this.#giveWay(ways, changes)
    this.#makeDirectories(items, changes)
    for (const item of files) this.#put(id, item, changes)
    if (policy.prune) this.#prune(named, policy.protect, changes)
    this.#clean(id, foreign, changes)
    this.#addEarlier(earlier, changes)
    this.placed.push({ id, changes })
    return null
  }

  /** Goes back exactly to the state after the deployment with this number (0: before the first one). */
  goBack(id: string, number: number, { force, isUndo }: { force: boolean; isUndo: boolean }): Failure | null {
    if (this.placed.length === 0) return 'nothing to undo'
    const wanted = new Map<string, Earlier & { undone: string }>()
    for (const { id: undone, changes } of this.placed.slice(number).reverse()) {
      for (const [path, earlier] of changes) wanted.set(path, { ...earlier, undone })
    }
    // An undo brings back what the target had just before; a rollback what the goal, or one before it, put into the target.
    const kept = isUndo ? [] : this.placed.slice(0, number)
    for (const [path, earlier] of wanted) {
      const last = kept.findLast(({ changes }) => changes.has(path))
      const put = last?.changes.get(path)?.after
      if (last === undefined || put === undefined || put === null) continue
      const { before } = earlier
      const isKept = before !== null && 'type' in before && hasSameContents(before, put)
      wanted.set(path, { ...earlier, before: put, ...(!isKept && { source: put.isScripted ? ofScript : last.id }) })
    }
    const items: Array<ModelEntry & { path: string }> = []
    const removed: string[] = []
    const [made, gone] = [new Map<string, number>(), [] as string[]]
    for (const [path, { before, source, undone }] of wanted) {
      const known = this.owned.get(path)
      if (before === null) {
        if (known !== undefined) removed.push(path)
        else if (this.ownedDirectories.has(path)) gone.push(path)
      } else if ('directory' in before) {
        if (!this.ownedDirectories.has(path)) made.set(path, before.directory)
      } else if (known === undefined || !isSame(known, before)) {
        if (this.lostArchives.has(source === own ? undone : source)) return 'not exact'
        items.push({ ...before, path })
      }
    }
    // By force, what was edited since and is older than the undone deployments is to be as the goal left it, too.
    const named = new Set([...items.map(({ path }) => path), ...made.keys(), ...removed])
    for (const [path, { since, ...known }] of force && !isUndo ? this.owned : []) {
      const found = this.files.get(path)
      const isLink = known.type === 'link'
      const isAsLeft = found !== undefined && (isLink ? hasSameContents : isSame)(found, known)
      if (named.has(path) || isAsLeft) continue
      if (this.lostArchives.has(known.isScripted ? ofScript : since)) return 'not exact'
      items.push({ ...known, path })
    }
    const asItems = [...items, ...[...made].map(([path, mode]) => ({ path, type: 'directory' as const, mode }))]
    const ways = this.#waysOf(asItems)
    const given = [...this.owned.keys()].filter(path => ways.some(way => isAtOrBelow(way, path)))
    if (!force && given.some(path => this.files.has(path) && this.#isEdited(path))) return 'in the way'
    if (!force && items.length > 0 && this.owned.size > 0 && ![...this.owned.keys()].some(path => this.files.has(path)))
      return 'emptied'
    if (this.#isBlocked(ways)) return 'in the way'
    const changes = new Map<string, Earlier>()
    const earlier = this.#giveWay(ways, changes)
    this.#makeDirectories(
      asItems.map(item => ({ text: '', timeUs: 0, ...item })),
      changes
    )
    for (const item of items) if (force || !this.#isTakenByOthers(item)) this.#put(id, item, changes)
    for (const path of removed) if (this.owned.has(path)) this.#remove(path, force, changes)
    this.#removeEmpty(gone, changes)
    this.#addEarlier(earlier, changes)
    this.placed.push({ id, changes })
    return null
  }

  /** Paths of owned files that are not as svc put them there. */
  drift(): string[] {
    return [...this.owned.keys()].filter(path => this.#isEdited(path)).sort()
  }

  /**
   * The script of the last deployment changes a file: it writes more (`text`), changes its mode, or removes it.
   */
  script(path: string, change: { text: string; timeUs: number } | { mode: number } | null): void {
    const last = this.placed.at(-1) as Placed
    const { since, ...known } = this.owned.get(path) as OwnedEntry
    const next =
      change === null ? null : { ...known, ...change, ...('text' in change && { isScripted: true as const }) }
    const source = known.isScripted ? ofScript : since
    last.changes.set(path, { ...(last.changes.get(path) ?? { before: known, source }), after: next })
    if (next === null) {
      this.files.delete(path)
      this.owned.delete(path)
    } else {
      this.files.set(path, { ...next })
      this.owned.set(path, { ...next, since: last.id })
    }
  }

  /** Whether a file is exactly as svc put it there. */
  isUntouched(path: string): boolean {
    const [known, found] = [this.owned.get(path), this.files.get(path)]
    return known !== undefined && found !== undefined && known.type === 'file' && isSame(known, found)
  }

  /** Returns the paths with another type of entry than these items need. */
  #waysOf(items: ReadonlyArray<Pick<ArchiveItem, 'path' | 'type'>>): string[] {
    const ways = items.flatMap(({ path, type }) => [
      ...parentsOf(path).filter(parent => this.files.has(parent)),
      ...((type === 'directory' ? this.files : this.directories).has(path) ? [path] : [])
    ])
    return [...new Set(ways)]
  }

  /** Whether somebody else owns a file at, or below, one of these paths. */
  #isBlocked(ways: readonly string[]): boolean {
    return [...this.files.keys()].some(path => !this.owned.has(path) && ways.some(way => isAtOrBelow(way, path)))
  }

  /** Removes everything at these paths. Returns their earlier entries. */
  #giveWay(ways: readonly string[], changes: Map<string, Earlier>): Map<string, Pick<Earlier, 'before' | 'source'>> {
    const earlier = new Map<string, Pick<Earlier, 'before' | 'source'>>()
    const isGiven = (path: string): boolean => ways.some(way => isAtOrBelow(way, path))
    for (const path of [...this.owned.keys()].filter(isGiven)) this.#remove(path, true, changes)
    for (const [path, mode] of this.directories) {
      if (!isGiven(path)) continue
      changes.set(path, { before: { directory: mode }, source: own, after: null })
      this.directories.delete(path)
      this.ownedDirectories.delete(path)
    }
    for (const way of ways) earlier.set(way, changes.get(way) as Earlier)
    return earlier
  }

  #addEarlier(earlier: ReadonlyMap<string, Pick<Earlier, 'before' | 'source'>>, changes: Map<string, Earlier>): void {
    for (const [path, { before, source }] of earlier)
      changes.set(path, { ...(changes.get(path) as Earlier), before, source })
  }

  /** Whether an owned file was edited or removed. */
  #isEdited(path: string): boolean {
    const [known, found] = [this.owned.get(path), this.files.get(path)]
    return known !== undefined && (found === undefined || !hasSameContents(found, known))
  }

  #replaces(item: Pick<ArchiveItem, 'path' | 'type' | 'text'>): boolean {
    const found = this.files.get(item.path)
    return found !== undefined && !hasSameContents(found, item)
  }

  /** Whether somebody else has a say in what is at the path of an item that an exact change would bring back. */
  #isTakenByOthers(item: ModelEntry & { path: string }): boolean {
    const [known, found] = [this.owned.get(item.path), this.files.get(item.path)]
    if (found === undefined) return known !== undefined
    if (hasSameContents(found, item)) return false
    return known === undefined || !hasSameContents(found, known)
  }

  #put(id: string, item: (ModelEntry & { path: string }) | ArchiveItem, changes: Map<string, Earlier>): void {
    const { path, type, text, mode, timeUs } = item as ModelEntry & { path: string }
    const found = this.files.get(path)
    const source = this.#sourceOf(id, path, { type, text })
    const isSameLink = type === 'link' && found !== undefined && hasSameContents(found, { type, text })
    const after = isSameLink ? { ...found } : { type, text, mode, timeUs }
    changes.set(path, { before: found === undefined ? null : { ...found }, source, after: { ...after } })
    this.files.set(path, after)
    this.owned.set(path, { ...(this.files.get(path) as ModelEntry), since: id })
  }

  /** Where the contents at a path are after they were replaced. */
  #sourceOf(id: string, path: string, next: Pick<ModelEntry, 'type' | 'text'> | null): string {
    const [known, found] = [this.owned.get(path), this.files.get(path)]
    if (found !== undefined && next !== null && hasSameContents(found, next)) return own
    if (known === undefined || found === undefined || !hasSameContents(found, known)) return `before of ${id}`
    if (known.isScripted) return ofScript
    return this.deletedArchives.has(known.since) ? `before of ${id}` : known.since
  }

  #prune(contained: ReadonlySet<string>, protect: string | null, changes: Map<string, Earlier>): void {
    const isProtected = (path: string): boolean => protect !== null && `${path}/`.startsWith(protect)
    for (const path of [...this.owned.keys()]) {
      if (!contained.has(path) && !isProtected(path)) this.#remove(path, false, changes)
    }
    this.#removeEmpty(
      [...this.ownedDirectories].filter(path => !contained.has(path) && !isProtected(`${path}/`)),
      changes
    )
  }

  /** Paths of what svc neither put there nor puts there now, and that is not protected. */
  #foreign(named: ReadonlySet<string>, protect: string | null): string[] {
    const isFree = (path: string): boolean => protect === null || !`${path}/`.startsWith(protect)
    return [...this.files.keys()].filter(path => !this.owned.has(path) && !named.has(path) && isFree(path))
  }

  #clean(id: string, foreign: readonly string[], changes: Map<string, Earlier>): void {
    for (const path of foreign) {
      changes.set(path, { before: { ...(this.files.get(path) as ModelEntry) }, source: `before of ${id}`, after: null })
      this.files.delete(path)
    }
    const emptied = new Set(foreign.flatMap(parentsOf))
    this.#removeEmpty([...emptied], changes)
  }

  #remove(path: string, force: boolean, changes: Map<string, Earlier>): void {
    const [known, found] = [this.owned.get(path) as OwnedEntry, this.files.get(path)]
    if (found !== undefined && !hasSameContents(found, known) && !force) return
    changes.set(path, {
      before: found === undefined ? null : { ...found },
      source: this.#sourceOf('removed', path, null),
      after: null
    })
    this.files.delete(path)
    this.owned.delete(path)
  }

  #removeEmpty(directories: readonly string[], changes: Map<string, Earlier>): void {
    for (const path of [...directories].sort((a, b) => b.length - a.length)) {
      const mode = this.directories.get(path)
      const isEmpty = ![...this.files.keys(), ...this.directories.keys()].some(other => other.startsWith(`${path}/`))
      if (mode === undefined || !isEmpty) continue
      changes.set(path, { before: { directory: mode }, source: own, after: null })
      this.directories.delete(path)
      this.ownedDirectories.delete(path)
    }
  }

  #makeDirectories(
    items: ReadonlyArray<Pick<ArchiveItem, 'path' | 'type' | 'mode'>>,
    changes: Map<string, Earlier>
  ): void {
    const modes = new Map(items.flatMap(({ path, type, mode }) => (type === 'directory' ? [[path, mode | 0o700]] : [])))
    const needed = items.flatMap(({ path, type }) => [...parentsOf(path), ...(type === 'directory' ? [path] : [])])
    for (const path of needed) {
      if (this.directories.has(path)) continue
      this.directories.set(path, modes.get(path) ?? 0o755)
      // Somebody has removed a file of svc there.
      this.owned.delete(path)
      this.ownedDirectories.add(path)
      changes.set(path, { before: null, source: own, after: null })
    }
  }
}

function isAtOrBelow(way: string, path: string): boolean {
  return path === way || path.startsWith(`${way}/`)
}

function hasSameContents(
  a: Pick<ModelEntry, 'text'> & { type: string },
  b: Pick<ModelEntry, 'text'> & { type: string }
): boolean {
  return a.type === b.type && a.text === b.text
}

function isSame(a: ModelEntry, b: ModelEntry): boolean {
  return hasSameContents(a, b) && a.mode === b.mode && a.timeUs === b.timeUs
}

/** Returns the directories that contain a path, outermost first. */
export function parentsOf(path: string): string[] {
  const parts = path.split('/').slice(0, -1)
  return parts.map((_, at) => parts.slice(0, at + 1).join('/'))
}
