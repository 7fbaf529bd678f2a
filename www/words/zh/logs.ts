import type { Words } from '../t.js'
import { words as ofLogFiles } from './log-files.js'

/** Texts of `pages/logs.ts`. */
export const words: Words = {
  ...ofLogFiles,
  'Find log files': '查找日志文件',
  Open: '打开',
  'Chosen log files': '已选的日志文件',
  '{count} chosen; at most {most} fit side by side': '已选 {count} 个；最多可并排显示 {most} 个',
  'Shown log files': '显示的日志文件',
  'Remove from view': '移出',
  'Choose other log files': '选择其他',
  'Each project has its own list of log files. Open a project to add its files.':
    '每个项目有自己的列表：打开一个项目，添加它写入的文件。',
  'Go to projects': '前往项目',
  'Nothing found': '未找到',
  'No log file has “{query}” in its name, its path or its project.': '没有日志文件的名称、路径或项目包含“{query}”。',
  'These log files are no longer listed': '这些日志文件已不在列表中',
  'They were removed from their projects. The files themselves may still exist.':
    '它们已从项目中移除。文件本身可能仍然存在。'
}
