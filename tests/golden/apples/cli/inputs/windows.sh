#!/bin/bash
