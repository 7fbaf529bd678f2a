import type { StopRequest } from './failure.js'

/** Runs one entry at a time per key, in order of arrival. Different keys run in parallel. */
export interface Queue {
  /** Adds an entry. Returns the number of entries of its key ahead of it. If there are none, it runs at once. */
  add(entry: QueueEntry): number
  /** Removes a waiting entry and returns it, or undefined if it is running or unknown. */
  takeBack(id: string): QueueEntry | undefined
  /** Removes all waiting entries and returns them, in order of arrival within each key. */
  takeBackAll(): QueueEntry[]
  /** Returns whether an entry is in the queue and does not run yet. */
  isWaiting(id: string): boolean
  /** Returns the number of entries of a key, including the running one. */
  count(key: string): number
}

/** An entry of the queue. */
export interface QueueEntry {
  key: string
  id: string
  /** Runs the entry. The next entry of its key starts when this resolves. Must not reject. */
  run(): Promise<unknown>
  /** Ends the entry without running it. */
  drop(request: StopRequest): Promise<unknown>
}

/** Creates an empty queue. */
export function createQueue(): Queue {
  const lanes = new Map<string, QueueEntry[]>()

  /** Runs the entries of a key. The first entry of a lane is the running one. */
  async function runLane(key: string, lane: QueueEntry[]): Promise<void> {
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
    isWaiting: id => [...lanes.values()].some(lane => lane.findIndex(entry => entry.id === id) > 0),
    takeBackAll: () => [...lanes.values()].flatMap(lane => lane.splice(1)),
    count: key => lanes.get(key)?.length ?? 0
  }
}
