/** Runs one at a time per key, in order of arrival; different keys side by side. */
export interface Queue<Entry extends QueueEntry> {
  /** Adds an entry; returns how many of its key are before it. With none it runs at once. */
  add(entry: Entry): number
  /** Takes back an entry whose turn has not come; undefined: it has, or there is none. */
  takeBack(id: string): Entry | undefined
  /** Takes back all whose turn has not come, in order of arrival within each key. */
  takeBackAll(): Entry[]
  /** How many of a key are there, the running one included. */
  count(key: string): number
}

export interface QueueEntry {
  key: string
  id: string
  /** Its turn; the next one's comes when this resolves. Must not reject. */
  run(): Promise<unknown>
}

/** Builds an empty queue. */
export function createQueue<Entry extends QueueEntry>(): Queue<Entry> {
  const lanes = new Map<string, Entry[]>()

  /** The first of a lane is the one that runs. */
  async function runLane(key: string, lane: Entry[]): Promise<void> {
    for (let entry = lane[0]; entry !== undefined; entry = lane[0]) {
      await entry.run()
      lane.shift()
    }
    lanes.delete(key)
  }

  return {
    add(entry) {
      const lane = lanes.get(entry.key)
      if (lane !== undefined) return lane.push(entry) - 1
      const fresh = [entry]
      lanes.set(entry.key, fresh)
      void runLane(entry.key, fresh)
      return 0
    },
    takeBack(id) {
      for (const lane of lanes.values()) {
        const at = lane.findIndex(entry => entry.id === id)
        if (at > 0) return lane.splice(at, 1)[0]
      }
      return undefined
    },
    takeBackAll: () => [...lanes.values()].flatMap(lane => lane.splice(1)),
    count: key => lanes.get(key)?.length ?? 0
  }
}
